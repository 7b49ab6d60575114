//! `iceoryx2`: publish-subscribe over its shared memory, polled.

use std::marker::PhantomData;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use super::{Channel, Rx, Tx};
use crate::Result;
use crate::link::Link;

/// The transport, for messages that are arrays of words.
#[derive(Debug)]
pub struct Iceoryx<const N: usize>(PhantomData<[u64; N]>);

type Service = ipc::Service;

/// A service with its node, which must outlive it.
#[derive(Debug)]
pub struct Both<const N: usize> {
    _node: Node<Service>,
    service: PortFactory<Service, [u64; N], ()>,
}

fn open<const N: usize>(name: &str) -> Result<Both<N>> {
    // It warns that there is no configuration file, which is as we want it.
    set_log_level(LogLevel::Error);
    let node = NodeBuilder::new().create::<Service>()?;
    let service = node
        .service_builder(&name.try_into()?)
        .publish_subscribe::<[u64; N]>()
        .enable_safe_overflow(false)
        .history_size(0)
        .subscriber_max_buffer_size(256)
        .open_or_create()?;
    Ok(Both { _node: node, service })
}

/// The sending end.
#[derive(Debug)]
pub struct Sender<const N: usize> {
    publisher: Publisher<Service, [u64; N], ()>,
    _both: Both<N>,
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<const N: usize> {
    subscriber: Subscriber<Service, [u64; N], ()>,
    _both: Both<N>,
}

impl<const N: usize> Channel<[u64; N]> for Iceoryx<N>
where
    [u64; N]: bytemuck::Pod,
{
    type Both = Both<N>;
    type Tx = Sender<N>;
    type Rx = Receiver<N>;

    fn create(link: &Link) -> Result<Both<N>> {
        static CREATED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        // Relaxed: only its own count matters.
        let number = CREATED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("nnburst-lab/{}/{number}", std::process::id());
        let both = open(&name)?;
        link.send(name.as_bytes(), &[])?;
        Ok(both)
    }

    fn join(link: &Link) -> Result<Both<N>> {
        let (name, _) = link.expect()?;
        open(std::str::from_utf8(&name)?)
    }

    fn tx(both: Both<N>) -> Result<Sender<N>> {
        let publisher = both
            .service
            .publisher_builder()
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()?;
        Ok(Sender { publisher, _both: both })
    }

    fn rx(both: Both<N>) -> Result<Receiver<N>> {
        let subscriber = both.service.subscriber_builder().create()?;
        Ok(Receiver { subscriber, _both: both })
    }
}

impl<const N: usize> Tx<[u64; N]> for Sender<N> {
    fn put(&mut self, message: &[u64; N]) -> Result<()> {
        self.publisher.loan_uninit()?.write_payload(*message).send()?;
        Ok(())
    }
}

impl<const N: usize> Rx<[u64; N]> for Receiver<N> {
    fn take(&mut self, message: &mut [u64; N]) -> Result<()> {
        loop {
            if let Some(sample) = self.subscriber.receive()? {
                *message = *sample;
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }
}
