//! `tributary stream serve` and `tributary stream play`: tiled 360° video over real sockets.

mod live;
mod page;

use super::{proxy, stop};
use crate::cli::UserArguments;
use crate::keys::{self, ClientKeys, ClientList, ServerKeys};
use crate::paths::{self, PathArguments};
use crate::service::ending::Ending;
use crate::service::qlog::QlogArguments;
use crate::service::reload::{self, Reload, SettingsFile};
use crate::service::{Control, Doing, Service, ServiceArguments, manager};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tributary_cli::arguments::{MemoryArguments, ViewerArguments};
use tributary_cli::{Progress, output, quantity};
use tributary_net::privileges::{Needs, Privileges};
use tributary_net::transport::SESSION_DEFAULT;
use tributary_net::transport::{TransportConfig, TransportName};
use tributary_net::{Common, Keys, PathConfig};
use tributary_report::machine;
use tributary_stream::tiled::TileSource;
use tributary_stream::tiled::{Account, ServedTiles};
use tributary_stream::viewing::{self, DiskSource, LiveVideo, PlayConfig, TileServer, Viewpoint};
use tributary_tiles::TiledVideo;
use tributary_tiles::live::Live;

/// The settings file of `stream serve`, if it has one. Nothing of it can be changed while the program runs.
type File = Option<SettingsFile<()>>;

/// Tiled 360° video, live: a server, and a headless viewer that measures its quality.
#[derive(Debug, Subcommand)]
pub(crate) enum Stream {
    Serve(Box<StreamServeArguments>),
    Play(Box<StreamPlayArguments>),
}

/// Arguments of both ends.
#[derive(Debug, Args)]
pub(crate) struct TransportArguments {
    /// Transport: session or a scheduler (all paths at once), tcp, mptcp, quic or mpquic; the same at both ends
    #[arg(long, default_value = "session")]
    pub(crate) transport: String,
    /// Scheduler for the data that this end sends
    #[arg(long, default_value = "fbdt")]
    pub(crate) scheduler: String,
    /// Congestion control of every socket [default: the system's]
    #[arg(long)]
    pub(crate) congestion: Option<String>,
    /// Largest transmission window of a session in KiB, or with a unit (1MB); data already in a window is sent
    /// even if its deadline passes
    #[arg(long, value_name = "SIZE", default_value = "96", value_parser = quantity::bytes_of(1024, 64 << 10..=16 << 20))]
    pub(crate) window: u64,
    /// A session without encryption and integrity protection; for experiments; set it at both ends
    #[arg(long)]
    pub(crate) plaintext: bool,
    #[command(flatten)]
    pub(crate) qlog: QlogArguments,
}

/// Serve a tiled video, from a directory or live: each viewer gets the tiles that it requests, in its order, until their deadline.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary ingest my-equirectangular.mp4 --out tiles
  tributary stream serve tiles --listen 203.0.113.5:7000 --key server.key --clients clients.toml
  tributary stream serve --source 'srt://0.0.0.0:9000?mode=listener' --listen 203.0.113.5:7000 --key server.key --clients clients.toml
  tributary stream serve --source rtmp://127.0.0.1/live/360 --qps 30 --size 1024x512 --listen 203.0.113.5:7000 --shared-key shared.key")]
pub(crate) struct StreamServeArguments {
    /// Directory that `tributary ingest` made
    #[arg(required_unless_present = "source")]
    pub(crate) directory: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) live: live::LiveArguments,
    /// Address to accept on; repeatable
    #[arg(long, required = true, num_args = 1..)]
    pub(crate) listen: Vec<SocketAddr>,
    #[command(flatten)]
    pub(crate) keys: ServerKeys,
    #[command(flatten)]
    pub(crate) transport: TransportArguments,
    #[command(flatten)]
    pub(crate) memory: MemoryArguments,
    #[command(flatten)]
    pub(crate) user: UserArguments,
    #[command(flatten)]
    pub(crate) service: ServiceArguments,
    /// Print the listening addresses, and the counters of each viewer, as JSON objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// Play a tiled video in the browser, or for a viewer with a recorded head movement and measure the quality of the viewport.
///
/// The player plans every GoP from the head's position and from the tiles that have arrived. When a GoP begins, it
/// shows the tiles that have arrived and conceals the others. At the end it decodes everything and compares the
/// viewport, picture by picture, with the source's.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary stream play --path wlan0=203.0.113.5:7000 --path wwan0=203.0.113.5:7000 \\
      --server-key PUBKEY --key client.key --reference tiles --head viewer.csv --seconds 30 --report viewing.html
  tributary stream play --path any=203.0.113.5:7000 --transport tcp --allocator fix --reference tiles --json
  tributary stream play --path auto --path wwan0,metered --server 203.0.113.5:7000 \\
      --server-key PUBKEY --key client.key --reference tiles
  tributary stream play --path wlan0=203.0.113.5:7000 --server-key PUBKEY --key client.key --web")]
pub(crate) struct StreamPlayArguments {
    #[command(flatten)]
    pub(crate) paths: PathArguments,
    #[command(flatten)]
    pub(crate) keys: ClientKeys,
    #[command(flatten)]
    pub(crate) transport: TransportArguments,
    #[command(flatten)]
    pub(crate) viewer: ViewerArguments,
    /// The tiled video with the source's pictures, to measure against; without it only arrivals are reported. With --web one picture of every
    /// fourth GoP is measured
    #[arg(long, value_name = "DIR")]
    pub(crate) reference: Option<PathBuf>,
    /// Seconds to play; the video is repeated if it is shorter [default: the video once]
    #[arg(long, value_parser = quantity::seconds_in(1..=3600))]
    pub(crate) seconds: Option<u32>,
    /// Write an HTML report with pictures of the viewport
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Ask for the low-resolution stream instead of the tiles
    #[arg(long)]
    pub(crate) low_resolution: bool,
    /// Store the arrived tiles in this file and print counters as JSON, without measuring quality
    #[arg(long, value_name = "FILE", hide = true, conflicts_with_all = ["reference", "report"])]
    pub(crate) keep: Option<PathBuf>,
    /// Show the video in the browser instead, on this loopback address with a secret in its URL, until ended
    ///
    /// The viewer looks around with mouse, touch or arrow keys, and the player plans for where he looks. It plays while the
    /// page is open, and repeats the video without --seconds.
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:0",
        conflicts_with_all = ["head", "report", "keep"])]
    pub(crate) web: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) service: ServiceArguments,
    /// Print one JSON object, with every GoP's plan, arrivals and quality; with --web, the page's URL in one
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(command: Stream, file: File) -> Result<ExitCode> {
    match command {
        Stream::Serve(arguments) => serve(*arguments, file),
        Stream::Play(arguments) => play(&arguments),
    }
}

/// Checks what can be checked before the command starts.
pub(super) fn check(command: &Stream) -> Result<()> {
    match command {
        Stream::Serve(arguments) => {
            arguments.service.check()?;
            serving(arguments).map(drop)
        }
        Stream::Play(arguments) => {
            arguments.service.check()?;
            arguments.web.map_or(Ok(()), tributary_site::check)?;
            playing(arguments).map(drop)
        }
    }
}

/// What is served.
enum Content {
    Directory(DiskSource),
    Live(LiveVideo, Box<Live>),
}

fn serving(arguments: &StreamServeArguments) -> Result<(TransportConfig, Option<ClientList>, Content)> {
    let (keys, list) = arguments.keys.load()?;
    let mut transport = transport(&arguments.transport, keys, &[])?;
    if arguments.memory.memory.is_some() && !matches!(transport.name, TransportName::Session { .. }) {
        bail!("--memory limits what sessions hold; `{}` has no such limit: leave it out", transport.name);
    }
    transport.limits = arguments.memory.limits();
    let content = match (arguments.live.live()?, &arguments.directory) {
        (Some(live), _) => Content::Live(LiveVideo::new(&live)?, Box::new(live)),
        (None, Some(directory)) => Content::Directory(DiskSource(Arc::new(TiledVideo::open(directory)?))),
        (None, None) => bail!("give a directory that `tributary ingest` made, or a live --source"),
    };
    Ok((transport, list, content))
}

fn serve(arguments: StreamServeArguments, file: File) -> Result<ExitCode> {
    let (mut transport, list, content) = serving(&arguments)?;
    transport.passed = manager::passed(transport.ports(&arguments.listen), arguments.service.metrics())?;
    let keep = transport.common.as_ref().map_or_else(Needs::default, proxy::needs);
    let keep = keep.and(Needs::of_congestion(transport.congestion.as_deref()));
    let privileges = Privileges::new(arguments.user.user.as_deref(), keep)?;
    let service = &arguments.service;
    privileges.begin(Needs::of_ports(arguments.listen.iter().chain(&service.metrics())))?;
    let runtime = proxy::limited_runtime(&privileges, service.log_format)?;
    let service = service.begin_with(&transport.passed)?;
    runtime.block_on(arguments.transport.qlog.during(async |log| {
        transport.log = log;
        keys::say(transport.common.as_ref().map(|common| &common.keys));
        list.map(ClientList::follow).transpose()?;
        let ready = (privileges, file, service);
        match content {
            Content::Directory(video) => {
                let server = TileServer::bind(transport, &arguments.listen, video).await?;
                run_server(server, &arguments, ready, None).await
            }
            Content::Live(video, live) => {
                let server = TileServer::bind(transport, &arguments.listen, video.clone()).await?;
                run_server(server, &arguments, ready, Some((video, *live))).await
            }
        }
    }))
}

/// Serves until a signal, or until a live source has ended. The live source is opened without the privileges.
async fn run_server<S: TileSource + Clone>(
    server: TileServer<S>,
    arguments: &StreamServeArguments,
    (privileges, file, service): (Privileges, File, Service),
    live: Option<(LiveVideo, Live)>,
) -> Result<ExitCode> {
    let json = arguments.json;
    privileges.finish()?;
    let (viewers, ending) = (server.viewers(), Ending::default());
    let reload = file.map(|file| Reload::new(file, &[], reload::nothing()));
    reload.as_ref().map(Reload::follow).transpose()?;
    let (shown, video) = (viewers.clone(), live.as_ref().map(|(video, _)| video.clone()));
    let _shown = service.show("stream serve", server.addresses(), Control::new(&ending, reload), {
        let video = video.clone();
        move || match &video {
            None => serde_json::json!({ "viewers": shown.list() }),
            Some(video) => serde_json::json!({ "viewers": shown.list(), "live": video.status() }),
        }
    });
    let mut signals = stop::Signals::new()?;
    let work = async {
        if let Some((video, live)) = live {
            video.begin(live).await.map_err(anyhow::Error::msg)?;
        }
        proxy::announce(server.addresses(), json)?;
        let serving = server.run(move |peer, served| drop(output::line(&account(peer, served, json))));
        match &video {
            None => serving.await,
            Some(video) => tokio::select! {
                () = serving => {}
                ended = live::follow(video, &viewers) => ended?,
            },
        }
        anyhow::Ok(())
    };
    tokio::select! {
        ended = work => ended?,
        (_, name) = signals.next() => tracing::info!("{name} received; ended"),
        () = ending.requested() => tracing::info!("asked to end; ended"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The log line about a viewer that has left.
fn account(peer: SocketAddr, served: &ServedTiles, json: bool) -> String {
    let (counters, outcome) = (served.counters, &served.outcome);
    let error = outcome.as_ref().err().map(ToString::to_string);
    if json {
        let account = served.account.map(|account| {
            let Account { asked, in_time, late } = account;
            serde_json::json!({ "asked": asked, "in_time": in_time, "late": late, "dropped": account.dropped() })
        });
        let line =
            serde_json::json!({ "viewer": peer, "account": account, "tiles": counters, "error": error });
        return line.to_string();
    }
    let end = error.map_or_else(|| "left in order".to_owned(), |error| format!("was disconnected: {error}"));
    match served.account {
        Some(account) => format!(
            "{peer} {end}; {} tiles, {} in time, {} late, {} dropped",
            account.asked,
            account.in_time,
            account.late,
            account.dropped()
        ),
        None => format!(
            "{peer} {end} without its counters; server: {} tiles, {} sent, {} dropped",
            counters.planned - counters.replaced,
            counters.pushed,
            counters.expired
        ),
    }
}

fn playing(arguments: &StreamPlayArguments) -> Result<(PlayConfig, Viewpoint)> {
    let paths = arguments.paths.paths()?;
    let locals: Vec<String> = paths.iter().map(PathConfig::local_name).collect();
    let locals: Vec<&str> = locals.iter().map(String::as_str).collect();
    let mut transport = transport(&arguments.transport, arguments.keys.load()?, &locals)?;
    transport.common = transport.common.map(|common| paths::with_wait(common, arguments.paths.wait()));
    let config = PlayConfig { transport, paths };
    let mut viewer = arguments.viewer.config(arguments.seconds)?;
    viewer.record = arguments.report.is_some();
    viewer.low_resolution = arguments.low_resolution;
    Ok((config, Viewpoint::new(viewer)?))
}

fn play(arguments: &StreamPlayArguments) -> Result<ExitCode> {
    let (mut config, viewpoint) = playing(arguments)?;
    let (service, qlog) = (&arguments.service, &arguments.transport.qlog);
    if let Some(address) = arguments.web {
        let reference = arguments.reference.as_deref().map(TiledVideo::open).transpose()?;
        return proxy::runtime(service.log_format)?.block_on(qlog.during(async |log| {
            config.transport.log = log;
            keys::say(config.transport.common.as_ref().map(|common| &common.keys));
            let page = (address, arguments.json);
            page::run((config, viewpoint), reference, page, service.begin()?).await
        }));
    }
    if let Some(keep) = &arguments.keep {
        let kept = proxy::runtime(service.log_format)?.block_on(qlog.during(async |log| {
            config.transport.log = log;
            Ok(viewpoint.keep(&config, keep).await?)
        }))?;
        output::line(&serde_json::to_string(&kept)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(report) = &arguments.report {
        output::directory(report.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    }
    let began = std::time::Instant::now();
    let mut progress = Progress::new();
    let doing = Doing::default();
    let mut report = |share: f64, text: &str| {
        progress.at(share, text);
        doing.at(share, text);
    };
    let named: Vec<String> = config.paths.iter().map(ToString::to_string).collect();
    let mut viewed = proxy::runtime(service.log_format)?.block_on(qlog.during(async |log| {
        config.transport.log = log;
        keys::say(config.transport.common.as_ref().map(|common| &common.keys));
        let _shown = doing.show(service.begin()?, "stream play", named.into());
        Ok(viewpoint.view(&config, arguments.reference.as_deref(), &mut report).await?)
    }))?;
    progress.end();
    if let Some(path) = &arguments.report {
        let mut info = machine::run_info(&output::command_line());
        info.seconds = Some(began.elapsed().as_secs_f64());
        info.congestion = arguments.transport.congestion.clone().unwrap_or_else(|| "the system's".to_owned());
        let moments = viewed.moments()?;
        let video = viewed.video()?;
        let page = viewing::page("tiled 360° video", &[&viewed.result], video.as_ref(), &moments, &info);
        std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.json {
        output::line(&serde_json::to_string(&viewed.result)?)?;
    } else {
        let table = viewing::table(&[&viewed.result]).to_text();
        output::line(&format!(
            "{table}\n{}\n{}\n{}",
            viewed.result.sentence(),
            viewed.result.conditions(),
            viewed.result.load_words()
        ))?;
    }
    if let Some(path) = &arguments.report {
        eprintln!("report: {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The transport as the command line describes it; `paths` are the local ends of the paths.
fn transport(arguments: &TransportArguments, keys: Option<Keys>, paths: &[&str]) -> Result<TransportConfig> {
    let name = match paths {
        [] => arguments.transport.parse()?,
        paths => TransportName::find(&arguments.transport, None, paths)?,
    };
    let name = match name {
        TransportName::Session { scheduler } if scheduler == SESSION_DEFAULT => {
            TransportName::session(&arguments.scheduler)
        }
        name => name,
    };
    arguments.qlog.check([&name])?;
    let mut config = TransportConfig::new(name);
    config.congestion.clone_from(&arguments.congestion);
    if let Some(keys) = keys {
        if keys.shared().is_none()
            && matches!(config.name, TransportName::Tcp(_) | TransportName::Mptcp { .. })
        {
            bail!(
                "`{}` authenticates nobody: leave the keys out, or take session, quic or mpquic",
                config.name
            );
        }
        let mut common = Common::new(keys);
        common.plaintext = arguments.plaintext;
        common.session.window = arguments.window as usize;
        config.common = Some(common);
    }
    Ok(config)
}
