//! `tributary tunnel`: the machine's traffic over a session. Two processes: one keeps CAP_NET_ADMIN, waits, and takes everything back at
//! the end; the other one has the session, and no privileges but the right to mark its sockets.

use super::exec::{Signals, code};
use super::{proxy, stop};
use crate::cli::{Switch, TunnelArguments, TunnelCommand};
use crate::keys;
use crate::service::ending::Ending;
use crate::service::log;
use crate::service::reload::{Apply, Reload, SettingsFile};
use anyhow::{Context, Result, bail};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tributary_exec::{Sockets, channel};
use tributary_net::privileges::{Needs, Privileges};
use tributary_net::proxy::{ForwardConfig, ForwardControl, Forwarder, Redirected};
use tributary_net::{PathConfig, ServerAddress, Siblings};
use tributary_tunnel::{MARK, Selection, Settings, Tunnel, parse_network, parse_users};

/// Names of the hidden commands that have the session: with flags, and with a settings file.
pub(crate) const SESSION: &str = "tunnel-session";
pub(crate) const SESSION_OF_FILE: &str = "tunnel-session-of-file";
/// What it says when it is listening.
const UP: &str = "up";

/// Checks what can be checked before a tunnel starts.
pub(super) fn check(arguments: &TunnelArguments) -> Result<()> {
    arguments.session.service.check()?;
    settings(arguments)?;
    forward_config(arguments).map(drop)
}

pub(crate) fn run(arguments: &TunnelArguments, is_of_file: bool) -> Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "a tunnel changes this machine's routes, rules and resolv.conf, so it must be started by root; it gives up everything that \
             it no longer needs. `tributary exec` carries one program without root"
        );
    }
    if let Some(TunnelCommand::Clean) = arguments.command {
        tributary_tunnel::clean()?;
        return Ok(ExitCode::SUCCESS);
    }
    let settings = settings(arguments)?;
    // What is wrong with them is said before anything is changed.
    Servers::default().paths(arguments)?;
    log::start(log::LEVEL, arguments.session.service.log_format)?;
    let tunnel = Tunnel::prepare(settings)?;
    let (channel, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(std::io::Error::from)?;
    let child =
        session_command(is_of_file)?.stdin(theirs).spawn().context("starting the session's process")?;
    let kill = arguments.session.user.user.is_some();
    Privileges::new(None, Needs { admin: true, kill, ..Needs::default() })?.finish()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(guard(tunnel, child, channel));
    // A thread may still wait for the session.
    runtime.shutdown_background();
    Ok(ExitCode::from(code(outcome?)))
}

/// This program with the same arguments, as the command that has the session.
fn session_command(is_of_file: bool) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    let name = if is_of_file { SESSION_OF_FILE } else { SESSION };
    command.arg(name).args(std::env::args_os().skip(2));
    Ok(command)
}

/// Leads the traffic to the session's process once that is ready, and takes it back when that has ended.
async fn guard(mut tunnel: Tunnel, child: Child, channel: OwnedFd) -> Result<ExitStatus> {
    let mut signals = Signals::new()?;
    tunnel.give(&channel).context("giving the device to the session's process")?;
    let process = child.id();
    let ready =
        tokio::task::spawn_blocking(move || channel::receive(&channel).is_ok_and(|(text, _)| text == UP));
    let (status, was_told) = {
        let mut ended = std::pin::pin!(signals.until_ended(child));
        let early = tokio::select! {
            status = &mut ended => Some(status?),
            is_ready = ready => {
                if is_ready.unwrap_or(false) && let Err(error) = tunnel.lead() {
                    // It may have ended just now.
                    let _ = tributary_exec::signal(process, 15);
                    ended.await?;
                    return Err(error.into());
                }
                None
            }
        };
        match early {
            Some(status) => (status, false),
            None => (ended.await?, true),
        }
    };
    // It ends in order after a signal that was passed on to it.
    let died = was_told && status.code().is_none();
    if died && tunnel.lose() {
        tracing::warn!("the kill switch holds: start the tunnel again, or `tributary tunnel clean`");
    }
    Ok(status)
}

/// The hidden command: the session, with the device and sockets that the process at the other end of standard input gives.
pub(crate) fn session(
    arguments: TunnelArguments,
    file: Option<SettingsFile<TunnelArguments>>,
) -> Result<ExitCode> {
    let session = &arguments.session;
    let mut config = forward_config(&arguments)?;
    let mut servers = Servers::default();
    config.connect.paths = servers.paths(&arguments)?;
    config.connect.common.siblings = Siblings::Mark(MARK);
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(std::io::Error::from)?;
    let sockets = Sockets::receive(&channel).context("taking the device")?;
    let Ok(Sockets { listeners, names, device: Ok(device) }) = sockets else {
        bail!("the process that made the tunnel has ended");
    };
    let of_paths = proxy::needs_of_paths(&config.connect.paths);
    let user = session.user.user.as_deref();
    let privileges = Privileges::new(user, proxy::needs(&config.connect.common).and(of_paths))?;
    privileges.begin(Needs::of_ports(&session.service.metrics()))?;
    // Only now: a change of user clears it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .map_err(std::io::Error::from)?;
    let drain = Duration::from_secs(session.drain);
    proxy::until_stopped(&privileges, session.service.log_format, async {
        keys::say(Some(&config.connect.common.keys));
        let service = session.service.begin()?;
        let mut forwarder = Forwarder::bind(config).await?;
        forwarder.serve_redirected(Redirected { listeners, names, device: Some(device) })?;
        let reload =
            file.map(|file| Reload::new(file, proxy::control::CLIENT, apply(forwarder.control(), servers)));
        reload.as_ref().map(Reload::follow).transpose()?;
        privileges.finish()?;
        channel::send(&channel, UP, &[]).context("the process that made the tunnel has ended")?;
        tracing::info!("the tunnel is up");
        let ending = Ending::default();
        let control = proxy::client_control(&forwarder, &arguments.paths, (&ending, reload));
        let _shown = service.show_proxy("tunnel", &forwarder.addresses(), control, forwarder.watch());
        stop::run(&ending, |stopped| forwarder.run_until(async { drop(stopped.await) }, drain)).await
    })
}

fn settings(arguments: &TunnelArguments) -> Result<Settings> {
    let selection = Selection {
        networks: arguments.to.iter().map(|text| parse_network(text)).collect::<Result<_, _>>()?,
        users: arguments.uid.iter().map(|text| parse_users(text)).collect::<Result<_, _>>()?,
        groups: arguments.cgroup.clone(),
    };
    let routes = arguments.routes == Switch::On;
    let whole = routes && selection.is_everything();
    Ok(Settings {
        device: arguments.device.clone(),
        mtu: arguments.mtu,
        names: arguments.dns.map_or(whole, |dns| dns == Switch::On),
        selection,
        routes,
        kill_switch: arguments.kill_switch,
    })
}

fn forward_config(arguments: &TunnelArguments) -> Result<ForwardConfig> {
    proxy::forward_config(&arguments.paths, (&arguments.keys, &arguments.session), Vec::new())
}

/// Carries out the settings of a file for a running tunnel.
fn apply(control: ForwardControl, servers: Servers) -> Apply<TunnelArguments> {
    let servers = Mutex::new(servers);
    Box::new(move |arguments| {
        // The question for a new name goes through the tunnel, that is to this runtime.
        let paths = tokio::task::block_in_place(|| {
            servers.lock().unwrap_or_else(PoisonError::into_inner).paths(arguments)
        })?;
        control.replace_priorities(forward_config(arguments)?.priorities)?;
        Ok(control.replace_paths(paths)?)
    })
}

/// Servers that have a name, and the addresses that were found for them: later, questions would go into the tunnel.
#[derive(Default)]
struct Servers(BTreeMap<(String, u16), SocketAddr>);

impl Servers {
    /// The paths, with the addresses of their servers.
    fn paths(&mut self, arguments: &TunnelArguments) -> Result<Vec<PathConfig>> {
        let mut paths = arguments.paths.paths()?;
        for path in &mut paths {
            if let ServerAddress::Name(name, port) = &path.server {
                path.server = self.find(name, *port)?.into();
            }
        }
        Ok(paths)
    }

    fn find(&mut self, name: &str, port: u16) -> Result<SocketAddr> {
        let key = (name.to_owned(), port);
        if let Some(address) = self.0.get(&key) {
            return Ok(*address);
        }
        let found = (name, port).to_socket_addrs().with_context(|| format!("cannot resolve `{name}`"))?;
        // Of the family that this machine has a route for.
        let reached = found.into_iter().find(|address| proxy::has_route(*address));
        let address = reached.with_context(|| format!("there is no route to `{name}`"))?;
        self.0.insert(key, address);
        Ok(address)
    }
}
