//! `tributary dash`: MPEG-DASH over every transport.

mod page;
mod play;

use super::{proxy, stop};
use crate::cli::UserArguments;
use crate::keys::{self, ClientList, ServerKeys};
use crate::service::ending::Ending;
use crate::service::qlog::QlogArguments;
use crate::service::reload::{self, Reload, SettingsFile};
use crate::service::{Control, ServiceArguments, manager};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tributary_cli::{Progress, output, quantity};
use tributary_dash::package::{self, LADDER, Layout, Package, Settings};
use tributary_dash::server::{Limits, Server, ServerConfig};
use tributary_dash::tls::Identity;
use tributary_net::event_log::EventLog;
use tributary_net::privileges::{Needs, Privileges};
use tributary_net::transport::{Certificates, TransportConfig, TransportName};
use tributary_net::{Common, Keys};
use tributary_report::{Column, Table, TableCell};

/// The settings file of `dash serve`, if it has one. Nothing of it can be changed while the program runs.
type File = Option<SettingsFile<()>>;

/// MPEG-DASH: package a video, serve it, play it.
#[derive(Debug, Subcommand)]
pub(crate) enum Dash {
    Serve(Box<ServeArguments>),
    Package(PackageArguments),
    Play(Box<play::PlayArguments>),
}

/// Serve a directory over HTTP/1.1, HTTP/2 and HTTP/3: manifests, segments, byte ranges, conditional requests.
///
/// Listens with the kernel's MPTCP where the kernel supports it; MPTCP sockets also accept plain TCP clients. Pages
/// of any origin may read the files (CORS). Hidden files and links that lead out of the directory are not served.
/// SIGTERM or SIGINT ends it in order. HTTP/3 and HTTPS use the certificate of --tls-cert. Without it the server
/// makes one and prints its fingerprint; clients that have the server's public key (--key) or its shared key trust that one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary dash serve video
  tributary dash serve video --listen 0.0.0.0:8080 --listen '[::]:8080'
  tributary dash serve video --quic 203.0.113.5:7001
  tributary dash serve video --https '[::]:443' --quic '[::]:443' --tls-cert chain.pem --tls-key key.pem
  tributary dash serve video --session 203.0.113.5:7000 --key server.key --clients clients.toml")]
pub(crate) struct ServeArguments {
    /// Directory with the manifest and the segments
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Address for HTTP over TCP and MPTCP; repeatable
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: Vec<SocketAddr>,
    /// Plain TCP only, without MPTCP
    #[arg(long)]
    tcp: bool,
    /// Address for HTTP/1.1 over Tributary sessions (the client's --transport fbdt); repeatable
    #[arg(long, value_name = "ADDRESS:PORT")]
    session: Vec<SocketAddr>,
    /// Address for HTTP/1.1 and HTTP/2 over TLS; repeatable
    #[arg(long, value_name = "ADDRESS:PORT")]
    https: Vec<SocketAddr>,
    /// Address for HTTP/3 (the client's --transport quic); repeatable
    #[arg(long, value_name = "ADDRESS:PORT")]
    quic: Vec<SocketAddr>,
    /// Address for HTTP/1.1 over the streams of multipath QUIC (the client's --transport mpquic); repeatable
    #[arg(long, value_name = "ADDRESS:PORT")]
    mpquic: Vec<SocketAddr>,
    #[command(flatten)]
    keys: ServerKeys,
    /// Certificate chain for --https and --quic, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Congestion control of TCP and of QUIC [default: the system's]
    #[arg(long)]
    congestion: Option<String>,
    /// Maximum number of concurrent connections; more are refused
    #[arg(long, default_value_t = Limits::default().connections, value_parser = connections)]
    connections: usize,
    /// Seconds after which an idle connection is closed
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = quantity::long_seconds_in(1..=3600))]
    idle: u64,
    /// Seconds that running responses have to finish after SIGTERM or SIGINT; those still open are then reset
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = quantity::long_seconds_in(0..=3600))]
    drain: u64,
    #[command(flatten)]
    user: UserArguments,
    #[command(flatten)]
    qlog: QlogArguments,
    #[command(flatten)]
    service: ServiceArguments,
    /// Print the listening addresses as one JSON object
    #[arg(long)]
    json: bool,
}

fn connections(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number from 1 to 1000000"))
}

/// Make a DASH title of a video: H.264 in twenty bitrates, segments of 4 s, and a manifest.
///
/// Pictures are never larger than the video's; low bitrates have smaller ones. Sound is left out. The directory is
/// created when everything is complete; Ctrl-C leaves no files behind.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary dash package film.mp4 --out video
  tributary dash package film.mp4 --out video --ladder 200,800,2500 --seconds 60
  tributary dash package film.mp4 --out video --single-file --json")]
pub(crate) struct PackageArguments {
    /// Video: any file that ffmpeg reads
    #[arg(value_name = "VIDEO")]
    video: PathBuf,
    /// Directory to create
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Bitrates in kbit/s, ascending [default: 20 steps from 45 to 3800]
    #[arg(long, value_name = "KBPS", value_delimiter = ',')]
    ladder: Vec<u32>,
    /// One file for each bitrate, read by byte ranges (SegmentBase), instead of a file for each segment
    #[arg(long)]
    single_file: bool,
    /// Seconds from the beginning [default: all]
    #[arg(long, value_parser = quantity::seconds_in(1..=86_400))]
    seconds: Option<u32>,
    /// libx264's preset
    #[arg(long, default_value = "veryfast", value_parser = tributary_tiles::ingest::PRESETS)]
    preset: String,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: Dash, file: File) -> Result<ExitCode> {
    match command {
        Dash::Serve(arguments) => serve(*arguments, file),
        Dash::Package(arguments) => package(arguments),
        Dash::Play(arguments) => play::run(*arguments),
    }
}

/// Checks what can be checked before the command starts.
pub(super) fn check(command: &Dash) -> Result<()> {
    match command {
        Dash::Serve(arguments) => {
            arguments.service.check()?;
            Serving::new(arguments).map(drop)
        }
        Dash::Play(arguments) => play::check(arguments),
        Dash::Package(_) => bail!("this command has no settings file"),
    }
}

/// What `dash serve` starts with.
struct Serving {
    config: ServerConfig,
    /// A name for the addresses of each entry of the configuration.
    names: Vec<&'static str>,
    keys: Option<Keys>,
    list: Option<ClientList>,
    fingerprint: Option<String>,
}

impl Serving {
    fn new(arguments: &ServeArguments) -> Result<Self> {
        let (keys, list) = match arguments.session.is_empty() && arguments.mpquic.is_empty() {
            true => arguments.keys.load()?,
            false => {
                let (keys, list) = arguments.keys.required().context("--session and --mpquic")?;
                (Some(keys), list)
            }
        };
        let identity = identity(arguments, keys.as_ref())?;
        let common = keys.clone().map(Common::new);
        let transport = |name: &str| -> Result<TransportConfig> {
            let mut config = TransportConfig::new(name.parse::<TransportName>()?);
            config.common.clone_from(&common);
            config.congestion.clone_from(&arguments.congestion);
            Ok(config)
        };
        let kernel = if arguments.tcp { "tcp" } else { "mptcp" };
        let mut listen = vec![("http", transport(kernel)?, arguments.listen.clone())];
        if let Some(identity) = &identity {
            let secure = |name: &str, settings| -> Result<TransportConfig> {
                let mut config = transport(name)?;
                config.certificates =
                    Some(Certificates { server: Some(settings), ..Certificates::default() });
                Ok(config)
            };
            listen.push(("https", secure(kernel, identity.https()?)?, arguments.https.clone()));
            listen.push(("quic", secure("quic", identity.http_3()?)?, arguments.quic.clone()));
        }
        for (name, addresses) in [("session", &arguments.session), ("mpquic", &arguments.mpquic)] {
            if !addresses.is_empty() {
                listen.push((name, transport(name)?, addresses.clone()));
            }
        }
        listen.retain(|(.., addresses)| !addresses.is_empty());
        arguments.qlog.check(listen.iter().map(|(_, config, _)| &config.name))?;
        let fingerprint = identity.as_ref().map(Identity::fingerprint);
        let names = listen.iter().map(|(name, ..)| *name).collect();
        let listen = listen.into_iter().map(|(_, config, addresses)| (config, addresses)).collect();
        let idle = Duration::from_secs(arguments.idle);
        let limits = Limits { connections: arguments.connections, idle, ..Limits::default() };
        let config = ServerConfig { directory: arguments.directory.clone(), listen, limits };
        Ok(Self { config, names, keys, list, fingerprint })
    }
}

fn serve(arguments: ServeArguments, file: File) -> Result<ExitCode> {
    let Serving { mut config, names, keys, list, fingerprint } = Serving::new(&arguments)?;
    let ports = config.listen.iter().flat_map(|(transport, addresses)| transport.ports(addresses));
    let passed = manager::passed(ports.collect(), arguments.service.metrics())?;
    config.listen.iter_mut().for_each(|(transport, _)| transport.passed = passed.clone());
    let drain = Duration::from_secs(arguments.drain);
    let privileges = Privileges::new(
        arguments.user.user.as_deref(),
        Needs::of_congestion(arguments.congestion.as_deref()),
    )?;
    let addresses =
        [&arguments.listen, &arguments.session, &arguments.https, &arguments.quic, &arguments.mpquic];
    let (service, json) = (&arguments.service, arguments.json);
    privileges.begin(Needs::of_ports(addresses.into_iter().flatten().chain(&service.metrics())))?;
    let work = async |log: Option<EventLog>| {
        config.listen.iter_mut().for_each(|(transport, _)| transport.log.clone_from(&log));
        keys::say(keys.as_ref());
        list.map(ClientList::follow).transpose()?;
        let service = service.begin_with(&passed)?;
        let server = Server::bind(config).await?;
        privileges.finish()?;
        announce(&names, &server.addresses(), fingerprint.as_deref(), json)?;
        let addresses: Vec<SocketAddr> = server.addresses().into_iter().flatten().collect();
        let watch = server.watch();
        let describe = move || serde_json::json!({ "connections": watch.connections() });
        let ending = Ending::default();
        let reload = file.map(|file| Reload::new(file, &[], reload::nothing()));
        reload.as_ref().map(Reload::follow).transpose()?;
        let _shown = service.show("dash serve", &addresses, Control::new(&ending, reload), describe);
        stop::run(&ending, |stopped| server.run_until(async { drop(stopped.await) }, drain)).await
    };
    proxy::until_stopped(&privileges, service.log_format, arguments.qlog.during(work))
}

/// The certificate of HTTPS and HTTP/3, if one of them is served.
fn identity(arguments: &ServeArguments, keys: Option<&Keys>) -> Result<Option<Identity>> {
    if arguments.https.is_empty() && arguments.quic.is_empty() {
        return Ok(None);
    }
    Ok(Some(match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Identity::read(certificate, key)?,
        _ => Identity::fresh(keys)?,
    }))
}

fn announce(
    names: &[&str],
    addresses: &[Vec<SocketAddr>],
    fingerprint: Option<&str>,
    json: bool,
) -> Result<()> {
    let each = names.iter().zip(addresses);
    if json {
        let listening: serde_json::Map<_, _> =
            each.map(|(name, addresses)| ((*name).to_owned(), serde_json::json!(addresses))).collect();
        let line = serde_json::json!({ "listening": listening, "fingerprint": fingerprint });
        return output::line(&line.to_string());
    }
    for (name, address) in each.flat_map(|(name, addresses)| addresses.iter().map(move |a| (name, a))) {
        output::line(&format!("listening on {name}://{address}/"))?;
    }
    if let Some(fingerprint) = fingerprint {
        output::line(&format!("certificate {fingerprint}"))?;
    }
    Ok(())
}

fn package(arguments: PackageArguments) -> Result<ExitCode> {
    let ladder = if arguments.ladder.is_empty() { LADDER.to_vec() } else { arguments.ladder };
    let layout = if arguments.single_file { Layout::SingleFile } else { Layout::Segments };
    let settings = Settings { ladder, seconds: arguments.seconds, preset: arguments.preset, layout };
    let stop = stop::flag()?;
    let mut progress = Progress::new();
    let made = package::package(
        &arguments.video,
        &arguments.out,
        &settings,
        (&mut |at| progress.at(at, "encoding"), &|| stop.load(Ordering::Relaxed) != 0),
    );
    progress.end();
    let made = made?;
    if arguments.json {
        output::line(&serde_json::to_string(&made)?)?;
    } else {
        output::line(&table(&made).to_text())?;
        for note in &made.notes {
            output::line(&format!("note: {note}"))?;
        }
        output::line(&format!("play it: tributary dash serve {}", made.directory().display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(made: &Package) -> Table {
    let title =
        format!("{}: {:.1} s in {} segments", made.manifest.display(), made.duration_s, made.segments);
    let columns =
        [("id", ""), ("asked for", "kbit/s"), ("came out", "kbit/s"), ("width", "px"), ("height", "px")];
    let mut table =
        Table::new(&title).columns(columns.map(|(heading, unit)| Column::right(heading).unit(unit)));
    for one in &made.representations {
        let kbps = |bps: u64| TableCell::number(bps as f64 / 1000.0, 0);
        let pixels = |side: u32| TableCell::number(f64::from(side), 0);
        table.push([
            TableCell::text(&one.id),
            kbps(one.nominal_bps),
            kbps(one.actual_bps),
            pixels(one.width),
            pixels(one.height),
        ]);
    }
    table
}
