//! Random bytes as a descriptor: whatever comes of it, it is an error or a queue that works.

use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::SealFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::descriptor::{AidlDescriptor, AidlGrantor, Descriptor, DescriptorData, Grantor};
use crate::{AttachOptions, Consumer, Queue, QueueError, SetupError, unsync};

/// Attaches to whatever `bytes` describe, in every flavour and form, and uses what comes of it.
/// Panics if that is neither an error nor a queue that works.
pub fn any_descriptor(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let sizes: Vec<u16> = (0..bytes.byte() % 4).map(|_| bytes.short()).collect();
    let sealed = bytes.byte();
    let fds = || sizes.iter().map(|size| file(*size, sealed)).collect::<Vec<_>>();
    let data = DescriptorData {
        quantum: bytes.number(),
        flags: bytes.number(),
        grantors: (0..bytes.byte() % 6).map(|_| bytes.grantor()).collect(),
    };
    let descriptor = || Descriptor { data: data.clone(), fds: fds() };
    attach::<u8>(descriptor());
    attach::<[u8; 3]>(descriptor());
    attach::<u64>(descriptor());
    attach::<[u64; 3]>(descriptor());
    attach::<()>(descriptor());
    if let Ok(aidl) = descriptor().into_aidl() {
        let back = Descriptor::from_aidl(aidl).expect("there and back");
        let flags = |grantors: &[Grantor]| grantors.iter().all(|grantor| grantor.flags == 0);
        assert!(back.data == data || !flags(&data.grantors), "{back:?}");
    }
    let signed = |grantor: &Grantor| AidlGrantor {
        fd_index: grantor.fd_index.cast_signed(),
        offset: grantor.offset.cast_signed(),
        extent: grantor.extent.cast_signed(),
    };
    let aidl = AidlDescriptor {
        grantors: data.grantors.iter().map(signed).collect(),
        fds: fds(),
        ints: Vec::new(),
        quantum: data.quantum.cast_signed(),
        flags: data.flags.cast_signed(),
    };
    if let Ok(descriptor) = Descriptor::from_aidl(aidl) {
        attach::<u64>(descriptor);
    }
}

fn attach<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(descriptor: Descriptor) {
    let options = AttachOptions::default();
    let copy = || descriptor.try_clone().expect("a copy");
    if let Ok(queue) = Queue::<T>::attach_with(copy(), options) {
        check_synchronized(queue.into_consumer());
        let empty =
            Queue::<T>::attach(copy()).map(|queue| queue.into_producer().try_push(T::zeroed()));
        assert!(matches!(
            empty,
            Ok(Ok(()) | Err(QueueError::Full { .. })) | Err(SetupError::Counters { .. })
        ));
    }
    if let Ok(mut reader) = unsync::Reader::<T>::attach(copy()) {
        // Zeroed memory, in which the writer has not begun, unless parts alias what a sync queue
        // wrote above.
        let _ = reader.try_pop();
    }
    let quantum = copy().data.quantum as usize;
    drop(crate::erased::Queue::attach(copy(), quantum));
    if let Ok(mut reader) = crate::erased::Reader::attach(descriptor, quantum) {
        let _ = reader.begin(1).and_then(|_| reader.commit(1));
    }
}

fn check_synchronized<T: bytemuck::Pod>(mut consumer: Consumer<T>) {
    let available = consumer.available_to_read().expect("counters checked at attaching");
    assert!(available <= consumer.capacity());
}

/// A file of `size` bytes, in one of the states that another process's file can be in.
fn file(size: u16, sealed: u8) -> OwnedFd {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let flags = if sealed & 1 == 0 { flags } else { MFdFlags::MFD_CLOEXEC };
    let fd = memfd_create("any", flags).expect("a memfd");
    nix::unistd::ftruncate(&fd, size.into()).expect("its size");
    let seals =
        [SealFlag::empty(), SealFlag::F_SEAL_SHRINK, SealFlag::F_SEAL_SEAL, SealFlag::all()];
    if let Some(seals) = seals.get(usize::from(sealed) / 2 % 4) {
        // Refused where sealing is not allowed, which is a state too.
        let _ = crate::memory::mapping::add_seals(fd.as_fd(), *seals);
    }
    fd
}

/// A script of bytes; zeros when it is over.
struct Bytes<'script>(&'script [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Small, large or odd: one byte says which.
    fn number(&mut self) -> u32 {
        match self.byte() {
            small @ 0..200 => u32::from(small),
            200..230 => u32::from(self.short()),
            230..245 => u32::from(self.short()) * 8,
            _ => u32::MAX - u32::from(self.byte()),
        }
    }

    fn grantor(&mut self) -> Grantor {
        let (flags, fd_index) = (u32::from(self.byte() / 128), u32::from(self.byte() % 8));
        let (offset, extent) = (self.number(), u64::from(self.number()));
        let extent = if self.byte() > 250 { extent << 32 } else { extent };
        Grantor { flags, fd_index, offset, extent }
    }
}
