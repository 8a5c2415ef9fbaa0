//! Isolation: everything that uses the emulator runs inside a separate process-id namespace.
//!
//! There are three processes: the *outer* one that the user started, which only forwards signals and waits;
//! an *init* (pid 1 of the new namespace), which reaps orphans; and the *main* one, in which [`isolate`]
//! returns. When the outer process dies for any reason, the kernel kills init, and with init every process of
//! the namespace. Network namespaces and TUN devices are held only by file descriptors, so they disappear
//! too. The outer process also removes main's temporary files, which a signal to main would leave.

use crate::sys;
use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

static ISOLATED: AtomicBool = AtomicBool::new(false);

/// Signals that the outer process and init forward to main.
const FORWARDED: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Why the process could not be isolated.
#[derive(Debug, Error)]
pub enum IsolateError {
    /// The process has other threads already.
    #[error("isolation must come before any other thread is started, but there are {threads} threads")]
    Threads {
        /// Their number.
        threads: usize,
    },
    /// The TUN device cannot be opened.
    #[error(
        "cannot open /dev/net/tun: {source}. Load the module (`modprobe tun`); in a container add \
         `--device /dev/net/tun`; if its mode forbids you, run as root or `chmod 0666 /dev/net/tun`"
    )]
    Tun {
        /// The system's reason.
        source: io::Error,
    },
    /// Namespaces cannot be created.
    #[error(
        "cannot create namespaces: {source}. Run as root, or allow user namespaces \
         (`sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000 \
         kernel.apparmor_restrict_unprivileged_userns=0`, those that exist); in a container add \
         `--cap-add SYS_ADMIN --cap-add NET_ADMIN --security-opt seccomp=unconfined`"
    )]
    Namespaces {
        /// The system's reason.
        source: io::Error,
    },
    /// Another step failed.
    #[error("{doing}: {source}")]
    System {
        /// The step.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> IsolateError {
    move |source| IsolateError::System { doing, source }
}

/// Whether this process is already isolated.
#[must_use]
pub fn is_isolated() -> bool {
    ISOLATED.load(Ordering::Relaxed)
}

/// Moves the rest of this program into its own namespaces: process ids, network, mounts, and users if that is
/// needed for permission. Call it at the start of `main`, before any thread or runtime starts.
///
/// Returns only in the isolated process. The calling process waits for it and exits with its status (128 + n
/// after signal n). Temporary files that the isolated process makes with `tempfile` are in a directory that the
/// calling process removes at its end. A second call does nothing.
pub fn isolate() -> Result<(), IsolateError> {
    if is_isolated() {
        return Ok(());
    }
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(IsolateError::Threads { threads });
    }
    File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .map_err(|source| IsolateError::Tun { source })?;
    enter_namespaces()?;
    let old_mask = block_signals().map_err(system("blocking signals"))?;
    let (watch, keep) = pipe().map_err(system("creating a pipe"))?;
    let files = tempfile::Builder::new().prefix("tributary-").tempdir();
    let files = files.map_err(system("creating a directory for temporary files"))?;
    let init = fork().map_err(system("starting the init process"))?;
    if init != 0 {
        drop(watch);
        let code = supervise(init, false); // `keep` stays open until the exit
        drop(files);
        std::process::exit(code);
    }
    drop(keep);
    // The parent may have died before this call took effect; then its end of the pipe is closed.
    sys::die_with_parent();
    if hung_up(&watch) {
        std::process::exit(1);
    }
    drop(watch);
    let main = fork().map_err(system("starting the main process"))?;
    // Only the outer process removes the directory.
    let files = files.keep();
    if main != 0 {
        std::process::exit(supervise(main, true));
    }
    restore_signals(&old_mask);
    // Fails if something has set another directory before; then that one is used.
    let _ = tempfile::env::override_temp_dir(&files);
    ISOLATED.store(true, Ordering::Relaxed);
    if let Err(error) = mount_proc() {
        tracing::debug!("keeping the /proc of the outer namespace: {error}");
    }
    tributary_tun::Netlink::open()
        .and_then(|mut netlink| netlink.set_link("lo", true, None))
        .map_err(system("bringing up the loopback interface"))
}

/// Creates the namespaces, with privilege if possible, else through a user namespace in which this process is root.
fn enter_namespaces() -> Result<(), IsolateError> {
    let wanted = libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWNS;
    match sys::unshare(wanted) {
        Ok(()) => return Ok(()),
        Err(error) if error.raw_os_error() != Some(libc::EPERM) => {
            return Err(IsolateError::Namespaces { source: error });
        }
        Err(_) => {}
    }
    let (user, group) = sys::effective_ids();
    sys::unshare(wanted | libc::CLONE_NEWUSER).map_err(|source| IsolateError::Namespaces { source })?;
    // Without privilege, group ids can be mapped only after setgroups is denied (user_namespaces(7)).
    let map = |file: &str, text: String| {
        std::fs::write(file, text).map_err(|source| IsolateError::Namespaces { source })
    };
    map("/proc/self/setgroups", "deny".to_owned())?;
    map("/proc/self/uid_map", format!("0 {user} 1"))?;
    map("/proc/self/gid_map", format!("0 {group} 1"))
}

/// Mounts a /proc that shows this namespace's processes.
fn mount_proc() -> io::Result<()> {
    sys::mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE)?;
    sys::mount("proc", "/proc", "proc", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC)
}

fn fork() -> io::Result<libc::pid_t> {
    // SAFETY: the process has a single thread (checked by `isolate`), so the child's memory is consistent.
    sys::check(unsafe { libc::fork() })
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    sys::check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both descriptors were just created and have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Whether the other end of the pipe is closed.
fn hung_up(end: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd, and a timeout of zero.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 && poll.revents & libc::POLLHUP != 0 }
}

fn watched_signals() -> libc::sigset_t {
    // SAFETY: sigset_t is plain data, initialised by sigemptyset before use.
    unsafe {
        let mut set = core::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in FORWARDED.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

fn block_signals() -> io::Result<libc::sigset_t> {
    let set = watched_signals();
    // SAFETY: both sets are valid for the call.
    unsafe {
        let mut old = core::mem::zeroed();
        sys::check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut old))?;
        Ok(old)
    }
}

fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: the set is the previous mask.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask, core::ptr::null_mut()) };
}

/// Waits for `child`, forwarding signals to it, and returns its exit code. With `reap`, also collects the
/// orphans that the kernel gives to an init.
fn supervise(child: libc::pid_t, reap: bool) -> c_int {
    let set = watched_signals();
    loop {
        // SAFETY: the set is valid and `info` is plain data that the call fills.
        let (signal, code) = unsafe {
            let mut info: libc::siginfo_t = core::mem::zeroed();
            (libc::sigwaitinfo(&raw const set, &raw mut info), info.si_code)
        };
        if signal == libc::SIGCHLD {
            if let Some(code) = collect(child, reap) {
                return code;
            }
        } else if signal > 0 && code != SI_KERNEL {
            // A terminal signals the whole foreground group itself; only signals from `kill` must be
            // forwarded.
            // SAFETY: sends a signal to our own child, which has not been waited for yet.
            unsafe { libc::kill(child, signal) };
        }
    }
}

/// `si_code` of a signal from the kernel, such as a terminal's Ctrl-C.
const SI_KERNEL: c_int = 0x80;

/// Collects exited children; returns the exit code once `child` is among them.
fn collect(child: libc::pid_t, reap: bool) -> Option<i32> {
    let which = if reap { -1 } else { child };
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for the call.
        let pid = unsafe { libc::waitpid(which, &raw mut status, libc::WNOHANG) };
        if pid <= 0 {
            return None;
        }
        if pid == child {
            let by_signal = libc::WIFSIGNALED(status);
            return Some(if by_signal { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) });
        }
    }
}
