//! The process inside: namespaces, loopback, routes, redirection, resolver, and then the program.
//!
//! The only way out is a TUN device whose other end the process outside holds. The kernel redirects TCP to a listener, which learns
//! the destination (`SO_ORIGINAL_DST`), and questions to any DNS server to a socket; everything else goes to the device. Where no
//! device can be made, every address is local to the namespace (a `local` route for all of them): UDP to other ports finds no socket,
//! and the kernel answers with "port unreachable".

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sched::CloneFlags;
use rustix::mount::MountPropagationFlags;
use rustix::process::Signal;
use rustix::thread::{CapabilitySet, CapabilitySets};
use thiserror::Error;
use tributary_tun::{Netlink, QUEUE, Tun};

use crate::channel;
use crate::nft::{self, NftError};
use crate::sockets::Sockets;
use crate::{ADDRESS, ADDRESS_6};

/// The device.
const DEVICE: &str = "tributary0";
/// Ethernet's, which programs and protocols inside tunnels expect. Longer datagrams come in fragments.
const MTU: u32 = 1500;
/// Sockets of name services outside, which would resolve names there: systemd-resolved's and nscd's.
const NAME_SERVICES: &[&str] = &["/run/systemd/resolve/io.systemd.Resolve", "/run/nscd/socket"];

/// What is missing.
#[derive(Debug, Error)]
pub enum EnterError {
    /// Namespaces cannot be created.
    #[error(
        "cannot create a network namespace: {0}. Allow user namespaces (`sysctl kernel.unprivileged_userns_clone=1 \
         user.max_user_namespaces=15000 kernel.apparmor_restrict_unprivileged_userns=0`, those that exist), or run as root; \
         in a container add `--cap-add SYS_ADMIN --cap-add NET_ADMIN --security-opt seccomp=unconfined`"
    )]
    Namespaces(io::Error),
    /// The kernel does not redirect.
    #[error(transparent)]
    Nft(#[from] NftError),
    /// Another step failed.
    #[error("{doing}: {error}")]
    System {
        /// The step.
        doing: &'static str,
        /// The system's reason.
        error: io::Error,
    },
    /// The program cannot be started.
    #[error("cannot run {}: {error}", program.display())]
    Program {
        /// Its name.
        program: OsString,
        /// The system's reason.
        error: io::Error,
    },
}

impl EnterError {
    /// The exit code, as shells use it: 127 for a program that does not exist, 126 for one that cannot be run, otherwise
    /// 125.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Program { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            Self::Program { .. } => 126,
            _ => 125,
        }
    }
}

fn system<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> EnterError {
    move |error| EnterError::System { doing, error: error.into() }
}

/// Becomes the program, in a namespace whose sockets the process has got that holds the other end of standard input.
/// Call it before any thread is started.
///
/// # Errors
/// [`EnterError`]. All but those of the program itself have been sent to the other process, which reports them.
pub fn enter(program: &[OsString]) -> Result<Infallible, EnterError> {
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
    let channel = channel.map_err(system("keeping the channel"))?;
    let (_, descriptors) = channel::receive(&channel).map_err(system("taking standard input"))?;
    if let [stdin] = &descriptors[..] {
        rustix::stdio::dup2_stdin(stdin).map_err(system("taking standard input"))?;
    }
    drop(descriptors);
    if let Err(error) = prepare(&channel) {
        let _ = channel::send(&channel, &error.to_string(), &[]);
        return Err(error);
    }
    let (text, _) = channel::receive(&channel).map_err(system("waiting for the session"))?;
    if text.is_empty() {
        return Err(EnterError::System {
            doing: "waiting for the session",
            error: io::ErrorKind::BrokenPipe.into(),
        });
    }
    let (name, arguments) = program.split_first().expect("the command line requires a program");
    let error = Command::new(name).args(arguments).exec();
    Err(EnterError::Program { program: name.clone(), error })
}

/// Sets everything up and sends the sockets.
fn prepare(channel: &OwnedFd) -> Result<(), EnterError> {
    enter_namespaces()?;
    // Only now: new credentials clear it. The parent may have ended before, which closes the channel.
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(system("following the parent process"))?;
    let device = Tun::create(DEVICE, true);
    let has_ipv6 = set_network_up(device.is_ok())?;
    let sockets = Sockets::listen(device.map_err(|error| error.to_string()), has_ipv6)
        .map_err(system("listening inside"))?;
    let (tcp, udp) = sockets.ports().map_err(system("listening inside"))?;
    redirect(tcp, udp)?;
    set_resolver().map_err(system("setting the resolver"))?;
    rustix::thread::clear_ambient_capability_set().map_err(system("giving up capabilities"))?;
    sockets.send(channel).map_err(system("sending the sockets"))
}

/// Network and mount namespaces; with a user namespace if that is needed for permission. The user stays the same.
fn enter_namespaces() -> Result<(), EnterError> {
    let wanted = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    match nix::sched::unshare(wanted) {
        Ok(()) => {}
        Err(nix::errno::Errno::EPERM) => {
            let failed = |error: io::Error| EnterError::Namespaces(error);
            nix::sched::unshare(wanted | CloneFlags::CLONE_NEWUSER).map_err(|errno| failed(errno.into()))?;
            // Without privilege, groups can be mapped only after setgroups is denied (user_namespaces(7)).
            std::fs::write("/proc/self/setgroups", "deny").map_err(failed)?;
            std::fs::write("/proc/self/uid_map", format!("{user} {user} 1")).map_err(failed)?;
            std::fs::write("/proc/self/gid_map", format!("{group} {group} 1")).map_err(failed)?;
        }
        Err(errno) => return Err(EnterError::Namespaces(errno.into())),
    }
    // `nft` is another program, and loses the capabilities of a user other than root unless they are ambient.
    let admin = CapabilitySet::NET_ADMIN;
    let allow = || {
        let held = rustix::thread::capabilities(None)?;
        rustix::thread::set_capabilities(
            None,
            CapabilitySets { inheritable: held.inheritable | admin, ..held },
        )?;
        rustix::thread::configure_capability_in_ambient_set(admin, true)
    };
    allow().map_err(|errno| EnterError::Namespaces(errno.into()))?;
    // Mounts must not be seen outside.
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|errno| EnterError::Namespaces(errno.into()))
}

/// The program's addresses and the way out for all others: the device, or none. Returns whether there is IPv6.
fn set_network_up(has_device: bool) -> Result<bool, EnterError> {
    let mut netlink = Netlink::open().map_err(system("opening netlink"))?;
    netlink.set_link("lo", true, None).map_err(system("bringing up the loopback interface"))?;
    if has_device {
        netlink.set_link(DEVICE, true, Some((MTU, QUEUE))).map_err(system("bringing up the device"))?;
    }
    let mut add = |address: IpAddr, bits: u8, all: IpAddr| {
        if has_device {
            netlink.add_address(DEVICE, address, bits)?;
            netlink.add_route(DEVICE, (all, 0), None)
        } else {
            netlink.add_address("lo", address, bits)?;
            netlink.add_local_default("lo", address)
        }
    };
    add(ADDRESS.into(), 32, Ipv4Addr::UNSPECIFIED.into()).map_err(system("adding the default route"))?;
    // Without IPv6 in this kernel, programs use IPv4.
    Ok(add(ADDRESS_6.into(), 128, Ipv6Addr::UNSPECIFIED.into()).is_ok())
}

/// Redirects questions to DNS servers and TCP connections that do not stay inside.
fn redirect(tcp: u16, udp: u16) -> Result<(), EnterError> {
    let rules = format!(
        "table inet tributary {{\n chain output {{\n type nat hook output priority -100; policy accept;\n \
         udp dport 53 redirect to :{udp}\n ip daddr {{ 127.0.0.0/8, {ADDRESS} }} accept\n \
         ip6 daddr {{ ::1, {ADDRESS_6} }} accept\n meta l4proto tcp redirect to :{tcp}\n }}\n}}\n"
    );
    Ok(nft::load(&rules)?)
}

/// A resolv.conf of this namespace's own, and no way to the name services outside.
fn set_resolver() -> io::Result<()> {
    let outer = Path::new("/etc/resolv.conf");
    // Without the file, programs ask 127.0.0.1, which is redirected too.
    if outer.exists() {
        let mut own = tempfile::NamedTempFile::new()?;
        writeln!(own, "nameserver {ADDRESS}")?;
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        own.as_file().set_permissions(readable)?;
        rustix::mount::mount_bind(own.path(), outer)?;
        // The mount keeps the file, its name is no longer needed.
    }
    for service in NAME_SERVICES.iter().filter(|service| Path::new(service).exists()) {
        // A connection to something that is no socket is refused.
        rustix::mount::mount_bind("/dev/null", *service)?;
    }
    Ok(())
}
