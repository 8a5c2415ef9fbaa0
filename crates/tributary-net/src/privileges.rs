//! What a long-running program that was started with privileges keeps of them: nothing but the capabilities that it
//! still needs. It can never gain others (`no_new_privs`), and may run as another user.
//!
//! Capabilities belong to threads, and new threads inherit them. So each thread that had them gives them up itself:
//! the first one when its sockets are bound, those of a runtime when they start, a node's thread when its devices are
//! made. Sources: capabilities(7), prctl(2).

use nix::unistd::{Gid, Uid, User, getgrouplist};
use rustix::io::Errno;
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use socket2::SockRef;
use std::ffi::CString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use thiserror::Error;

/// Capabilities that a program needs. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// CAP_NET_ADMIN: restricted congestion controllers.
    pub admin: bool,
    /// CAP_NET_RAW: marks on sockets (kernels before 5.17: CAP_NET_ADMIN), and sockets that move to another interface.
    pub raw: bool,
    /// CAP_NET_BIND_SERVICE: ports below 1024.
    pub low_ports: bool,
    /// CAP_KILL: signals to processes of other users.
    pub kill: bool,
}

impl Needs {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            admin: self.admin || other.admin,
            raw: self.raw || other.raw,
            low_ports: self.low_ports || other.low_ports,
            kill: self.kill || other.kill,
        }
    }

    /// To bind ports below the system's first unprivileged one.
    #[must_use]
    pub fn of_ports<'a>(addresses: impl IntoIterator<Item = &'a SocketAddr>) -> Self {
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        let first = text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1024);
        let low_ports = addresses.into_iter().any(|address| (1..first).contains(&address.port()));
        Self { low_ports, ..Self::default() }
    }

    /// To give sockets this congestion controller: root alone may use those that the system does not allow to all.
    #[must_use]
    pub fn of_congestion(name: Option<&str>) -> Self {
        let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
        let allowed = allowed.unwrap_or_default();
        let admin = name.is_some_and(|name| !allowed.split_whitespace().any(|known| known == name));
        Self { admin, ..Self::default() }
    }

    /// To mark sockets (`SO_MARK`).
    #[must_use]
    pub fn of_marks() -> Self {
        let raw = Self { raw: true, ..Self::default() };
        let mark = |socket: &UdpSocket| SockRef::from(socket).set_mark(1);
        if suffices(raw, mark) { raw } else { Self { admin: true, ..Self::default() } }
    }

    /// To bind new sockets to interfaces (`SO_BINDTODEVICE`).
    #[must_use]
    pub fn of_interfaces() -> Self {
        let bind = |socket: &UdpSocket| SockRef::from(socket).bind_device(Some(b"lo"));
        Self { raw: !suffices(Self::default(), bind), ..Self::default() }
    }

    fn set(self) -> CapabilitySet {
        let all = [
            (self.admin, CapabilitySet::NET_ADMIN),
            (self.raw, CapabilitySet::NET_RAW),
            (self.low_ports, CapabilitySet::NET_BIND_SERVICE),
            (self.kill, CapabilitySet::KILL),
        ];
        all.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, capability)| capability).collect()
    }
}

/// Whether the kernel allows something with these capabilities alone: kernels differ, so a thread that has no others
/// tries it.
fn suffices(needs: Needs, attempt: impl FnOnce(&UdpSocket) -> io::Result<()> + Send) -> bool {
    let try_it = || {
        Privileges::default().limit(needs).ok()?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        attempt(&socket).err()
    };
    let error = std::thread::scope(|scope| scope.spawn(try_it).join());
    error.ok().flatten().is_none_or(|error| error.kind() != io::ErrorKind::PermissionDenied)
}

/// Why privileges could not be given up.
#[derive(Debug, Error)]
pub enum PrivilegeError {
    /// There is no such user.
    #[error("there is no user `{0}` on this system")]
    UnknownUser(String),
    /// The change to another user failed.
    #[error("changing to user `{user}`: {source}; only root can do this")]
    User {
        /// The user's name.
        user: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Another system error.
    #[error("giving up capabilities: {0}")]
    System(#[from] io::Error),
}

/// The user to run as.
#[derive(Clone, Debug)]
struct Account {
    name: String,
    user: Uid,
    group: Gid,
    groups: Vec<Gid>,
}

/// What a program keeps once it is set up.
#[derive(Clone, Debug, Default)]
pub struct Privileges {
    account: Option<Account>,
    keep: Needs,
}

impl Privileges {
    /// Keeps `keep`, and runs as `user` if that is given.
    ///
    /// # Errors
    /// [`PrivilegeError::UnknownUser`].
    pub fn new(user: Option<&str>, keep: Needs) -> Result<Self, PrivilegeError> {
        let account = user.map(|name| {
            let unknown = || PrivilegeError::UnknownUser(name.to_owned());
            let user = User::from_name(name).ok().flatten().ok_or_else(unknown)?;
            let c_name = CString::new(name).map_err(|_| unknown())?;
            let groups = getgrouplist(&c_name, user.gid).map_err(io::Error::from)?;
            let (user, group) = (user.uid, user.gid);
            Ok::<_, PrivilegeError>(Account { name: name.to_owned(), user, group, groups })
        });
        Ok(Self { account: account.transpose()?, keep })
    }

    /// The calling thread, and threads that it starts from now on, change to the user and keep what the program needs now and later.
    /// Call it when files that only root reads have been read.
    ///
    /// # Errors
    /// [`PrivilegeError`].
    pub fn begin(&self, now: Needs) -> Result<(), PrivilegeError> {
        self.limit(self.keep.and(now))
    }

    /// The calling thread, and threads that it starts from now on, keep what the program needs later.
    ///
    /// # Errors
    /// [`PrivilegeError`].
    pub fn finish(&self) -> Result<(), PrivilegeError> {
        self.limit(self.keep)
    }

    /// As [`finish`](Self::finish), for a thread that needs less than the program, or more than its other threads.
    ///
    /// # Errors
    /// [`PrivilegeError`].
    pub fn limit(&self, needs: Needs) -> Result<(), PrivilegeError> {
        thread::set_no_new_privs(true).map_err(io::Error::from)?;
        let held = thread::capabilities(None).map_err(io::Error::from)?.permitted;
        let kept = needs.set() & held;
        bound(kept).map_err(io::Error::from)?;
        if let Some(account) = &self.account {
            account
                .enter()
                .map_err(|error| PrivilegeError::User { user: account.name.clone(), source: error.into() })?;
        }
        let inheritable = CapabilitySet::empty();
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable };
        thread::set_capabilities(None, sets).map_err(io::Error::from)?;
        Ok(())
    }
}

/// Takes all capabilities but `kept` out of the bounding set and out of the ambient set.
fn bound(kept: CapabilitySet) -> Result<(), Errno> {
    // Kernels before 4.3 have none.
    let _ = thread::clear_ambient_capability_set();
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(capability) {
            continue;
        }
        match thread::capability_is_in_bounding_set(capability) {
            Ok(false) => {}
            // The kernel has no capability with this number or a higher one.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error),
            Ok(true) => match thread::remove_capability_from_bounding_set(capability) {
                // Without CAP_SETPCAP the set stays, and `no_new_privs` alone keeps the thread from gaining any.
                Ok(()) | Err(Errno::PERM) => {}
                Err(error) => return Err(error),
            },
        }
    }
    Ok(())
}

impl Account {
    /// The calling thread becomes this user and keeps its capabilities.
    fn enter(&self) -> Result<(), Errno> {
        if rustix::process::getuid().as_raw() == self.user.as_raw() {
            return Ok(());
        }
        let (user, group) = (rustix::fs::Uid::from_raw(self.user.as_raw()), raw(&self.group));
        let groups: Vec<rustix::fs::Gid> = self.groups.iter().map(raw).collect();
        thread::set_keep_capabilities(true)?;
        thread::set_thread_groups(&groups)?;
        thread::set_thread_res_gid(group, group, group)?;
        thread::set_thread_res_uid(user, user, user)?;
        thread::set_keep_capabilities(false)
    }
}

fn raw(group: &Gid) -> rustix::fs::Gid {
    rustix::fs::Gid::from_raw(group.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs on a thread of its own, because other tests need their privileges.
    fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().expect("it does not panic")
    }

    #[test]
    fn a_thread_keeps_what_is_needed_and_its_children_inherit_that() {
        let held = thread::capabilities(None).expect("Linux has capabilities").permitted;
        let (start, kept, child, gains) = on_a_thread(|| {
            let keep = Needs { raw: true, ..Needs::default() };
            let privileges = Privileges::new(None, keep).expect("no user is looked up");
            let of_thread = || thread::capabilities(None).expect("Linux has capabilities");
            privileges.begin(Needs { low_ports: true, ..Needs::default() }).expect("a thread may give up");
            let start = of_thread();
            privileges.finish().expect("a thread may give up");
            (start, of_thread(), on_a_thread(of_thread), !thread::no_new_privs().expect("Linux has it"))
        });
        let raw = CapabilitySet::NET_RAW & held;
        assert_eq!(start.effective, (CapabilitySet::NET_RAW | CapabilitySet::NET_BIND_SERVICE) & held);
        assert_eq!((kept.effective, kept.permitted, kept.inheritable), (raw, raw, CapabilitySet::empty()));
        assert_eq!((child, gains), (kept, false));
    }

    #[test]
    fn what_needs_a_capability_is_known_beforehand() {
        let port = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(Needs::of_ports(&[port(0), port(65_535)]), Needs::default());
        assert_eq!(Needs::of_congestion(None), Needs::default());
        assert!(Needs::of_congestion(Some("none-has-this-name")).admin);
        let marks = Needs::of_marks();
        assert!(marks.raw || marks.admin);
        assert!(!Needs::of_interfaces().admin);
    }

    #[test]
    fn an_unknown_user_is_named() {
        let error = Privileges::new(Some("nobody-has-this-name"), Needs::default()).unwrap_err();
        assert!(error.to_string().contains("`nobody-has-this-name`"), "{error}");
    }

    #[test]
    fn as_root_the_thread_becomes_the_user_and_keeps_its_capabilities() {
        if !rustix::process::getuid().is_root() || User::from_name("nobody").ok().flatten().is_none() {
            println!("cannot run here: needs root and a user `nobody`");
            assert!(std::env::var("CI").is_ok_and(|value| value != "true") || std::env::var("CI").is_err());
            return;
        }
        let held = thread::capabilities(None).expect("Linux has capabilities").permitted;
        let (user, groups, kept) = on_a_thread(|| {
            let keep = Needs { raw: true, ..Needs::default() };
            let privileges = Privileges::new(Some("nobody"), keep).expect("the user exists");
            privileges.finish().expect("root may become another user");
            // The second time there is nothing to change, and no right to.
            privileges.finish().expect("nothing is left to do");
            let groups = rustix::process::getgroups().expect("a thread has groups");
            (
                rustix::process::geteuid(),
                groups,
                thread::capabilities(None).expect("Linux has capabilities").effective,
            )
        });
        assert_ne!(user.as_raw(), 0);
        assert!(groups.iter().all(|group| group.as_raw() != 0), "{groups:?}");
        assert_eq!(kept, CapabilitySet::NET_RAW & held);
    }
}
