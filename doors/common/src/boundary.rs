//! The end of a panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::log::Log;

/// Runs the body of an `extern "C"` function, and returns `failed` where it panics: to unwind into
/// the host would abort it. The panic's message goes to the log as an error. What `body` changed
/// stays as it was at the panic, so the caller must not rely on it afterwards.
pub fn guarded<R>(log: &Log, failed: R, body: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => {
            log.error(&format!("internal error: {}", message(payload.as_ref())));
            // A payload's destructor may panic as well.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            failed
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::Kept;

    #[test]
    fn a_panic_ends_at_the_boundary_and_is_logged() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("in a destructor");
            }
        }
        let (log, kept) = Kept::log();
        assert_eq!(guarded(&log, -1, || 7), 7);
        assert_eq!(guarded(&log, -1, || panic!("wrong by {}", 3)), -1);
        assert_eq!(guarded(&log, -1, || std::panic::panic_any(Bomb)), -1);
        assert_eq!(kept.texts(), ["internal error: wrong by 3", "internal error: a panic"]);
    }
}
