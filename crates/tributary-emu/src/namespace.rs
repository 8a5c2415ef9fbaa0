//! A network namespace without a name: it exists as long as a file descriptor to it is open.

use crate::sys;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use tributary_tun::Netlink;

/// Settings of every namespace, equal on both sides and for every transport. Settings that a kernel lacks or forbids
/// are skipped. The exception is the one against cached metrics, because an earlier connection must not affect a
/// later one.
const SETTINGS: [(&str, &str); 10] = [
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/tcp_wmem", "4096 65536 67108864"),
    ("ipv4/tcp_rmem", "4096 131072 67108864"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv6/conf/default/addr_gen_mode", "1"),
];

/// A network namespace.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    file: Arc<OwnedFd>,
}

impl Namespace {
    /// Creates a namespace with loopback up and the settings applied.
    pub(crate) fn create() -> io::Result<Self> {
        let build = || -> io::Result<OwnedFd> {
            sys::unshare(libc::CLONE_NEWNET)?;
            Netlink::open()?.set_link("lo", true, None)?;
            for (name, value) in SETTINGS {
                if let Err(error) = std::fs::write(format!("/proc/sys/net/{name}"), value) {
                    tracing::debug!("net/{name} is unchanged: {error}");
                }
            }
            Ok(File::open("/proc/thread-self/ns/net")?.into())
        };
        let file = on_new_thread(build)??;
        Ok(Self { file: Arc::new(file) })
    }

    /// Whether both are the same namespace.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
    }

    /// Runs `work` on a thread inside. Sockets and threads that it creates stay in the namespace.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_new_thread(|| sys::enter_network(self.as_fd()).map(|()| work()))?
    }

    /// A command that will run inside.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let file = self.file.clone();
        // SAFETY: the closure runs between fork and exec and makes one async-signal-safe system call;
        // it neither allocates nor takes locks.
        unsafe { command.pre_exec(move || sys::enter_network(file.as_fd())) };
        command
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Runs `work` on a new thread, whose namespace can be changed without affecting the caller.
fn on_new_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("namespace".to_owned()).spawn_scoped(scope, work)?;
        Ok(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
