//! The duties of both elements that are alike.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gst::glib;
use gst::prelude::*;
use gst_base::prelude::*;
use nnburst_doors_common::guarded;

use crate::{CAT, log};

/// Locks what a panic, which ends at the element's functions, may have left.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets a property by `set`, where the element's state lets it be set; the log says where not.
pub(crate) fn set_property(
    element: &impl IsA<gst::Element>,
    spec: &glib::ParamSpec,
    set: impl FnOnce() -> Option<()>,
) {
    let is_fixed = spec.flags().contains(gst::PARAM_FLAG_MUTABLE_READY)
        && element.current_state() > gst::State::Ready;
    if is_fixed {
        gst::warning!(CAT, obj = element, "{} can be set in NULL and READY only", spec.name());
    } else if guarded(&log::of_door(), None, set).is_none() {
        gst::error!(CAT, obj = element, "{} can't be set", spec.name());
    }
}

/// The value of a property that `get` knows, or its default.
pub(crate) fn property(
    spec: &glib::ParamSpec,
    get: impl FnOnce() -> Option<glib::Value>,
) -> glib::Value {
    guarded(&log::of_door(), None, get).unwrap_or_else(|| spec.default_value().clone())
}

/// Adds the latency `own` to an answered query of the source pad, where it is one of latency.
pub(crate) fn add_latency(query: &mut gst::QueryRef, own: gst::ClockTime) {
    if let gst::QueryViewMut::Latency(latency) = query.view_mut() {
        let (is_live, least, most) = latency.result();
        latency.set(is_live, least + own, most.map(|most| most + own));
    }
}

/// Has the element say on its bus what is wrong with caps that it refuses: what upstream says of
/// them, "not negotiated", names neither side. `own` tells the caps that the element takes.
pub(crate) fn report_refused_caps<E>(
    element: &E,
    own: impl Fn(&E) -> gst::Caps + Send + Sync + 'static,
) where
    E: IsA<gst_base::BaseTransform> + IsA<gst::Element> + Send + Sync,
{
    let weak = element.downgrade();
    let probe = move |_: &gst::Pad, info: &mut gst::PadProbeInfo<'_>| {
        if let (Some(element), Some(event)) = (weak.upgrade(), info.event())
            && let gst::EventView::Caps(caps) = event.view()
        {
            guarded(&log::of_door(), (), || {
                let (own, given) = (own(&element), caps.caps());
                if !given.can_intersect(&own) {
                    gst::element_error!(
                        element,
                        gst::CoreError::Negotiation,
                        ("takes {own}, and was given {given}")
                    );
                }
            });
        }
        gst::PadProbeReturn::Ok
    };
    // Probes see events before the pad refuses them.
    element.sink_pad().add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, probe);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_at_the_functions_of_properties() {
        gst::init().unwrap();
        let element = gst::ElementFactory::make("fakesink").build().unwrap();
        let spec = crate::properties::text("model-1", "A path", Some("none"));
        set_property(&element, &spec, || panic!("in a setter"));
        let value = property(&spec, || panic!("in a getter"));
        assert_eq!(value.get::<&str>().unwrap(), "none");
    }
}
