//! Entries of systemd's journal, by its native protocol: each event is a datagram of fields.
//!
//! ```text
//!   PRIORITY            3 error, 4 warning, 5 notice (info), 6 info (debug), 7 debug (trace)
//!   SYSLOG_IDENTIFIER   nnburst
//!   TARGET              the part that the event is of
//!   MESSAGE             the event with its fields, as a plain line has them
//!   NNBURST_NAME        each field by itself
//! ```
//!
//! A reader of `journalctl` sees `MESSAGE` alone, so it has everything in it.

use std::fmt::{self, Write as _};
use std::io;
use std::os::unix::net::UnixDatagram;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The journal's socket.
const SOCKET: &str = "/run/systemd/journal/socket";

/// The longest value in bytes, so that an entry fits into a datagram.
const LONGEST: usize = 8 << 10;

/// A layer that writes events to the journal.
#[derive(Debug)]
pub(crate) struct Journal(UnixDatagram);

impl Journal {
    /// The journal of this machine.
    ///
    /// # Errors
    /// Nobody has its socket.
    pub(crate) fn new() -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.send_to(&[], SOCKET)?;
        // Whoever logs waits for nobody.
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut entry = Entry::default();
        event.record(&mut entry);
        // There is no better place for an error than the journal.
        let _ = self.0.send_to(&entry.bytes(event.metadata()), SOCKET);
    }
}

/// The fields of an event.
#[derive(Default)]
struct Entry {
    message: String,
    /// What follows the message in a line: `name=value` of each field.
    rest: String,
    fields: Vec<u8>,
}

impl Entry {
    /// The datagram.
    fn bytes(self, metadata: &tracing::Metadata<'_>) -> Vec<u8> {
        let Self { mut message, rest, fields: mut bytes } = self;
        let priority = match *metadata.level() {
            Level::ERROR => "3",
            Level::WARN => "4",
            Level::INFO => "5",
            Level::DEBUG => "6",
            Level::TRACE => "7",
        };
        message.push_str(&rest);
        put(&mut bytes, "PRIORITY", priority);
        put(&mut bytes, "SYSLOG_IDENTIFIER", "nnburst");
        put(&mut bytes, "TARGET", metadata.target());
        put(&mut bytes, "MESSAGE", &message);
        bytes
    }

    fn add(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
            return;
        }
        let _ = write!(self.rest, " {}={value}", field.name());
        let letters = field.name().chars();
        let name =
            letters.map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
        put(&mut self.fields, &format!("NNBURST_{}", name.collect::<String>()), value);
    }
}

impl Visit for Entry {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }
}

/// Appends a field: its name, the end of a line, the length of its value in 64 bits, the value, and
/// the end of a line. So a value may have any bytes.
fn put(bytes: &mut Vec<u8>, name: &str, value: &str) {
    let value = &value.as_bytes()[..value.floor_char_boundary(LONGEST)];
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(b'\n');
    bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
    bytes.extend_from_slice(value);
    bytes.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// The datagrams of events.
    #[derive(Clone, Default)]
    struct Sent(Arc<Mutex<Vec<Vec<u8>>>>);

    impl<S: Subscriber> Layer<S> for Sent {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut entry = Entry::default();
            event.record(&mut entry);
            self.0.lock().unwrap().push(entry.bytes(event.metadata()));
        }
    }

    #[test]
    fn a_message_has_its_fields_and_each_is_there_by_itself() {
        let sent = Sent::default();
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(sent.clone()),
            || {
                tracing::warn!(target: "part", number = 7, text = "two\nlines", "said");
                tracing::error!(long = "é".repeat(LONGEST), "said");
            },
        );
        let sent = sent.0.lock().unwrap();
        let field = |name: &str, value: &str| {
            let mut bytes = Vec::new();
            put(&mut bytes, name, value);
            bytes
        };
        let has = |entry: &[u8], part: &[u8]| entry.windows(part.len()).any(|it| it == part);
        for (name, value) in [
            ("PRIORITY", "4"),
            ("SYSLOG_IDENTIFIER", "nnburst"),
            ("TARGET", "part"),
            ("MESSAGE", "said number=7 text=two\nlines"),
            ("NNBURST_NUMBER", "7"),
            ("NNBURST_TEXT", "two\nlines"),
        ] {
            assert!(has(&sent[0], &field(name, value)), "{name}: {:?}", sent[0]);
        }
        assert_eq!(field("N", "v"), b"N\n\x01\0\0\0\0\0\0\0v\n");
        assert!(has(&sent[1], b"PRIORITY\n\x01\0\0\0\0\0\0\x003\n"));
        assert!(sent[1].len() < 3 * LONGEST, "a long value is cut off");
    }
}
