//! The users whose files are used.

use std::fmt;

use once_cell::race::OnceBox;

/// The users whose files are used: root, and at most two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owners {
    own: Option<u32>,
    named: Option<u32>,
}

impl Owners {
    /// Root and this process's effective user.
    pub fn own() -> Self {
        Self { own: Some(nix::unistd::geteuid().as_raw()), named: None }
    }

    /// Root alone.
    pub const ROOT: Self = Self { own: None, named: None };

    /// These, and a user who was named for the purpose.
    #[must_use]
    pub fn and(self, named: Option<u32>) -> Self {
        Self { named, ..self }
    }

    /// Returns whether a user is one of them.
    pub fn has(&self, uid: u32) -> bool {
        uid == 0 || self.own == Some(uid) || self.named == Some(uid)
    }

    /// Returns whether an owner is root. In a user namespace without root, such as the one that
    /// systemd's user manager makes for its sandboxes, root's files look like those of every user
    /// who isn't mapped; outside of shared directories they count as root's.
    pub(super) fn is_root(self, uid: u32, shared: bool) -> bool {
        uid == 0 || (!shared && Some(uid) == unmapped())
    }
}

impl fmt::Display for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("uid 0")?;
        let mut others = [self.own, self.named].into_iter().flatten().filter(|uid| *uid != 0);
        others.try_for_each(|uid| write!(f, " or {uid}"))
    }
}

/// The uid that stands for root among others, if this process is in a user namespace that knows
/// neither.
fn unmapped() -> Option<u32> {
    static UNMAPPED: OnceBox<Option<u32>> = OnceBox::new();
    let read = || {
        let map = std::fs::read_to_string("/proc/self/uid_map").ok()?;
        let overflow = std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?;
        unmapped_in(&map, overflow.trim().parse().ok()?)
    };
    *UNMAPPED.get_or_init(|| Box::new(read()))
}

/// `overflow`, if a map of a user namespace has neither it nor root.
fn unmapped_in(map: &str, overflow: u32) -> Option<u32> {
    let mut ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (first, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some((first.ok()?, count.ok()?))
    });
    let maps = |(first, count): (u32, u32)| {
        let has = |uid: u32| uid.checked_sub(first).is_some_and(|past| past < count);
        has(0) || has(overflow)
    };
    (!map.trim().is_empty() && !ranges.any(maps)).then_some(overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_missed_only_where_it_is_not_mapped() {
        assert_eq!(unmapped_in("         0          0 4294967295\n", 65534), None);
        assert_eq!(unmapped_in("1000 1000 1\n", 65534), Some(65534));
        assert_eq!(unmapped_in("0 1000 1\n", 65534), None, "root of a container");
        assert_eq!(unmapped_in("65534 1000 1\n", 65534), None, "we are that user ourselves");
        assert_eq!(unmapped_in("", 65534), None, "unknown");
    }

    #[test]
    fn owners_are_named_in_messages() {
        let own = Owners { own: Some(7), named: None };
        assert_eq!(own.to_string(), "uid 0 or 7");
        assert_eq!(own.and(Some(9)).to_string(), "uid 0 or 7 or 9");
        assert_eq!(Owners::ROOT.to_string(), "uid 0");
        assert!(own.has(0) && own.has(7) && !own.has(9) && !Owners::ROOT.has(7));
    }
}
