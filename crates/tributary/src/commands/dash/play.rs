//! `tributary dash play`.

use super::super::proxy;
use super::page;
use crate::keys::{self, ClientKeys};
use crate::paths;
use crate::service::qlog::QlogArguments;
use crate::service::{Doing, ServiceArguments};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tributary_cli::{Progress, output, quantity};
use tributary_dash::client::{
    self, ClientConfig, LogEvent, Outcome, PlaybackState, Steering, TransportChoice, TransportPaths,
};
use tributary_dash::controller::Token;
use tributary_dash::tls::Trust;
use tributary_dash::viewing::{EventLog, Viewing, ViewingConfig};
use tributary_net::event_log;
use tributary_net::transport::{Certificates, TransportConfig, TransportName};
use tributary_net::{Common, Keys};
use tributary_player::PlayState;
use tributary_player::abr;
use tributary_player::dash::play::{Counting, Event, Loaded, Settings};
use tributary_player::engine;
use tributary_report::machine;
use tributary_report::{HtmlReport, KeyFigure, RunInfo, Series, TimeSeries, Tone};

/// Time between two looks at the engine's paths, for the status.
const PATHS_TOLD: Duration = Duration::from_millis(500);

/// Play a DASH title in the browser, or without showing it, and record the quality, stalls and switches of the playback.
///
/// Video only, in real time; a bitrate rule chooses the quality, with abandonment of downloads and CMCD. With
/// `--transport engine` the decision engine chooses between QUIC and MPTCP from a path controller's measurements, and
/// can move to QUIC during playback; `--quic PORT` is the server's port for HTTP/3. `--ca`, `--pin`, the keys
/// or `--insecure` selects the servers that are trusted over HTTP/3.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary dash play http://127.0.0.1:8080/manifest.mpd
  tributary dash play http://127.0.0.1:8080/manifest.mpd --rule bola --seconds 60 --report play.html
  tributary dash play http://203.0.113.5:8080/manifest.mpd --transport fbdt --server-key PUBKEY --key client.key \\
      --path wlan0=203.0.113.5:7000 --path wwan0=203.0.113.5:7000
  tributary dash play http://203.0.113.5:8080/manifest.mpd --transport fbdt --shared-key shared.key --path auto
  tributary dash play https://203.0.113.5:7001/manifest.mpd --transport quic --pin SHA256
  tributary dash play http://10.0.1.1:8080/manifest.mpd --transport engine --controller http://127.0.0.1:8181 \\
      --controller-token FILE --quic 7001 --server-key PUBKEY --key client.key --json
  tributary dash play http://203.0.113.5:8080/manifest.mpd --web --json-events viewing.jsonl")]
pub(crate) struct PlayArguments {
    /// The manifest: http://HOST:PORT/PATH; with --transport quic https://, too
    #[arg(value_name = "URL")]
    url: String,
    /// tcp, mptcp, quic, mpquic, fbdt (or another scheduler of sessions), engine
    #[arg(long, default_value = "mptcp")]
    transport: String,
    /// One path for each radio; LOCAL is an address, a network interface, `auto` (every interface with a route to the
    /// server, followed as they appear and disappear) or `any`. `metered` (sessions only): used only when the others
    /// cannot carry the data. Without =SERVER the server is the URL's [default: any]
    #[arg(long = "path", value_name = "LOCAL[,metered][=SERVER:PORT]")]
    paths: Vec<String>,
    /// Sessions: give up when no path is up for this many seconds, at least three [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::long_seconds_in(1..=86_400))]
    wait: Option<u64>,
    #[command(flatten)]
    keys: ClientKeys,
    /// URL of the path controller, for --transport engine
    #[arg(long, value_name = "URL", required_if_eq("transport", "engine"))]
    controller: Option<String>,
    /// File with the token that the controller requires; its log names the file [default:
    /// $TRIBUTARY_CONTROLLER_TOKEN]
    #[arg(long, value_name = "FILE", requires = "controller")]
    controller_token: Option<PathBuf>,
    /// The server's port for HTTP/3, for --transport engine
    #[arg(long, value_name = "PORT")]
    quic: Option<u16>,
    /// HTTP/3: trust these certificates or authorities, a PEM file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pin", "insecure"])]
    ca: Option<PathBuf>,
    /// HTTP/3: trust the certificate with this fingerprint, as `tributary dash serve` prints it
    #[arg(long, value_name = "SHA256", conflicts_with = "insecure")]
    pin: Option<String>,
    /// HTTP/3: trust any server
    #[arg(long)]
    insecure: bool,
    /// Bitrate rule
    #[arg(long, default_value = "dynamic", value_parser = clap::builder::PossibleValuesParser::new(abr::names()))]
    rule: String,
    /// Bytes of a download that count when the rule decides whether to abandon it: all that a session has received, or
    /// those without a gap before them, as a browser counts
    #[arg(long, value_name = "WHICH", default_value = "received", value_parser = ["received", "in-order"])]
    counting: String,
    /// Play buffer in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = quantity::long_seconds_in(1..=3600))]
    buffer: u64,
    /// Seconds of the title, from its beginning [default: all]
    #[arg(long, value_parser = quantity::long_seconds_in(1..=86_400))]
    seconds: Option<u64>,
    /// Congestion control of this end's sockets [default: the system's]
    #[arg(long)]
    congestion: Option<String>,
    /// Total rate of all paths in Mbit/s, to compute the network efficiency
    #[arg(long, value_name = "MBPS")]
    available: Option<f64>,
    /// Write the media to this file, segment by segment
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write an HTML page with plots to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Show the video in the browser instead, on this loopback address with a secret in its URL, until ended
    ///
    /// dash.js plays the title there and chooses the quality; its requests go over the chosen transport, which is connected when the
    /// viewer presses Play.
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:0",
        conflicts_with_all = ["rule", "counting", "buffer", "seconds", "available", "save", "report"])]
    web: Option<SocketAddr>,
    /// With --web: write the events to this file, one JSON object a line; an existing file is replaced
    #[arg(long, value_name = "FILE", requires = "web")]
    json_events: Option<PathBuf>,
    #[command(flatten)]
    qlog: QlogArguments,
    #[command(flatten)]
    service: ServiceArguments,
    /// Print the whole record as one JSON object; with --web, the page's URL in one
    #[arg(long)]
    json: bool,
}

/// Checks what can be checked before the command starts.
pub(super) fn check(arguments: &PlayArguments) -> Result<()> {
    arguments.service.check()?;
    arguments.web.map_or(Ok(()), tributary_site::check)?;
    config(arguments).map(drop)
}

fn config(arguments: &PlayArguments) -> Result<(ClientConfig, Option<Keys>)> {
    let keys = arguments.keys.load()?;
    let transport = transport(arguments, keys.clone())?;
    arguments.qlog.check(match &transport {
        TransportChoice::One(one) => Some(&one.config.name),
        TransportChoice::Engine(_) => None,
    })?;
    let config = ClientConfig {
        url: arguments.url.clone(),
        transport,
        rule: arguments.rule.clone(),
        settings: Settings {
            capacity: Duration::from_secs(arguments.buffer),
            counting: if arguments.counting == "in-order" { Counting::InOrder } else { Counting::Received },
            ..Settings::default()
        },
        most: arguments.seconds.map(Duration::from_secs),
        save: arguments.save.clone(),
    };
    Ok((config, keys))
}

pub(super) fn run(arguments: PlayArguments) -> Result<ExitCode> {
    let (mut config, keys) = config(&arguments)?;
    if let Some(address) = arguments.web {
        return watch(&arguments, address, (config, keys));
    }
    let began = Instant::now();
    let mut progress = Progress::new();
    let doing = Doing::default();
    let mut telling = Telling::new(doing.clone())?;
    let mut watch = |playback: &PlaybackState<'_>| {
        progress.at(share(playback), &words(playback));
        doing.at(share(playback), &words(playback));
        telling.tell(playback);
    };
    let service = &arguments.service;
    let outcome = proxy::runtime(service.log_format)?.block_on(arguments.qlog.during(async |log| {
        log_to(&mut config.transport, log);
        keys::say(keys.as_ref());
        let _shown = doing.show(service.begin()?, "dash play", arguments.url.clone().into());
        Ok(client::play(config, &mut watch).await?)
    }))?;
    progress.end();
    // Bits that the paths could carry in the whole session.
    let seconds = outcome.qoe.seconds.len() as f64;
    let efficiency = arguments.available.and_then(|mbps| outcome.qoe.efficiency(mbps * 1e6 * seconds));
    if let Some(path) = &arguments.report {
        let mut run = machine::run_info(&output::command_line());
        run.seconds = Some(began.elapsed().as_secs_f64());
        run.congestion = arguments.congestion.clone().unwrap_or_else(|| "the system's".to_owned());
        let page = page(&outcome, efficiency, &run);
        std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.json {
        let mut json = serde_json::to_value(&outcome)?;
        json["efficiency"] = serde_json::json!(efficiency);
        output::line(&json.to_string())?;
    } else {
        output::line(&summary(&outcome, efficiency))?;
    }
    if let Some(path) = &arguments.report {
        eprintln!("report: {}", path.display());
    }
    match &outcome.given_up {
        Some(why) => bail!("playback was given up: {why}"),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// What the status of a playback without a page has beside its progress: transports, and the engine's paths and decisions.
struct Telling {
    doing: Doing,
    log: EventLog,
    /// Events that the log has.
    taken: usize,
    /// When the paths were told.
    told: Option<Instant>,
}

impl Telling {
    fn new(doing: Doing) -> Result<Self> {
        Ok(Self { doing, log: EventLog::new(None)?, taken: 0, told: None })
    }

    fn tell(&mut self, playback: &PlaybackState<'_>) {
        let news = &playback.events[self.taken..];
        if self.told.is_some_and(|told| told.elapsed() < PATHS_TOLD) && news.is_empty() {
            return;
        }
        for entry in news {
            self.log.take(1, entry.what.clone());
        }
        (self.taken, self.told) = (playback.events.len(), Some(Instant::now()));
        self.doing.also(serde_json::json!({
            "transport": playback.transports.last(), "transports": playback.transports, "paths": playback.paths,
            "events": self.log.newest(),
        }));
    }
}

/// Plays in the browser.
fn watch(
    arguments: &PlayArguments,
    address: SocketAddr,
    (config, keys): (ClientConfig, Option<Keys>),
) -> Result<ExitCode> {
    let ClientConfig { url, mut transport, .. } = config;
    let file = arguments.json_events.as_deref();
    let log = EventLog::new(file)
        .with_context(|| format!("cannot create {}", file.unwrap_or(Path::new("")).display()))?;
    let service = &arguments.service;
    proxy::runtime(service.log_format)?.block_on(arguments.qlog.during(async |qlog| {
        log_to(&mut transport, qlog);
        keys::say(keys.as_ref());
        let viewing = Viewing::new(ViewingConfig { url, transport }, log)?;
        page::run(viewing, (address, arguments.json), service.begin()?).await
    }))
}

/// Writes the events of sessions to this log.
fn log_to(transport: &mut TransportChoice, log: Option<event_log::EventLog>) {
    if let TransportChoice::One(one) = transport {
        one.config.log = log;
    }
}

fn transport(arguments: &PlayArguments, keys: Option<Keys>) -> Result<TransportChoice> {
    let server = server(&arguments.url)?;
    if let ("engine", Some(controller)) = (arguments.transport.as_str(), &arguments.controller) {
        let certificates = |port| Ok::<_, anyhow::Error>((port, certificates(arguments, keys.as_ref())?));
        return Ok(TransportChoice::Engine(Box::new(Steering {
            controller: controller.clone(),
            token: controller_token(arguments).as_deref().map(token).transpose()?,
            settings: engine::Settings::default(),
            server,
            quic: arguments.quic.map(certificates).transpose()?,
            congestion: arguments.congestion.clone(),
        })));
    }
    let any = || vec!["any".to_owned()];
    let paths = if arguments.paths.is_empty() { any() } else { arguments.paths.clone() };
    let paths = paths::read(&paths, Some(&server))?;
    let mut config = TransportConfig::new(arguments.transport.parse::<TransportName>()?);
    config.congestion.clone_from(&arguments.congestion);
    if matches!(config.name, TransportName::Quic(_)) {
        config.certificates = Some(certificates(arguments, keys.as_ref())?);
    }
    let wait = arguments.wait.map(Duration::from_secs);
    config.common = keys.map(|keys| paths::with_wait(Common::new(keys), wait));
    Ok(TransportChoice::One(Box::new(TransportPaths { config, paths })))
}

/// The file with the token: the option's, or the one that `tributary-lab emu run --sdn` names.
fn controller_token(arguments: &PlayArguments) -> Option<PathBuf> {
    let named = || std::env::var_os("TRIBUTARY_CONTROLLER_TOKEN").filter(|file| !file.is_empty());
    arguments.controller_token.clone().or_else(|| named().map(PathBuf::from))
}

/// The only line of a file.
fn token(file: &Path) -> Result<Token> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the token in {}", file.display()))?;
    Ok(text.trim().parse()?)
}

/// The servers to trust over HTTP/3.
fn certificates(arguments: &PlayArguments, keys: Option<&Keys>) -> Result<Certificates> {
    let trust = match (&arguments.ca, &arguments.pin, keys) {
        (Some(file), ..) => Trust::File(file.clone()),
        (None, Some(pin), _) => Trust::pin(pin)?,
        _ if arguments.insecure => Trust::Anybody,
        (None, None, Some(keys)) => Trust::Keys(keys.clone()),
        _ => bail!(
            "HTTP/3 must authenticate the server: give --ca FILE, --pin SHA256, --server-key PUBKEY and \
             --key FILE, --shared-key FILE, or --insecure"
        ),
    };
    let server = server(&arguments.url)?;
    let host = server.rsplit_once(':').map_or(server.as_str(), |(host, _)| host);
    let server_name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(Certificates { client: Some(trust.http_3()?), server_name, server: None })
}

/// `HOST:PORT` of the URL; port 80 or 443 where it has none.
fn server(url: &str) -> Result<String> {
    let schemes = [("http://", 80), ("https://", 443)];
    let mut rests = schemes.iter().filter_map(|(scheme, port)| Some((url.strip_prefix(scheme)?, port)));
    let (rest, port) = rests.next().with_context(|| format!("`{url}`: write http://HOST:PORT/PATH"))?;
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { authority.to_owned() } else { format!("{authority}:{port}") })
}

fn share(playback: &PlaybackState<'_>) -> f64 {
    playback.position.as_secs_f64() / playback.duration.as_secs_f64().max(0.001)
}

/// The progress line. It shows whole seconds, so that a log has few different lines.
fn words(playback: &PlaybackState<'_>) -> String {
    let state = match playback.state {
        PlayState::Starting => "starting",
        PlayState::Playing => "playing",
        PlayState::Stalled => "stalled",
        PlayState::Ended => "ended",
    };
    let rate = playback.throughput.map_or(String::new(), |rate| format!(", {:.1} Mbit/s", rate / 1e6));
    format!("{state}, {} s buffered{rate}", playback.level.as_secs())
}

fn summary(outcome: &Outcome, efficiency: Option<f64>) -> String {
    let qoe = &outcome.qoe;
    let mut lines = vec![
        format!("transport          {}", outcome.transports.join(", then ")),
        format!("start-up           {}", qoe.start_up_s.map_or("none".to_owned(), |s| format!("{s:.2} s"))),
        format!("played             {:.1} s", qoe.played_s),
        format!("stalled            {:.2} s in {} stalls", qoe.stalled_s, qoe.stalls),
        format!("quality switches   {}", qoe.switches),
        format!("mean bitrate       {:.0} kbit/s", qoe.bitrate_bps / 1e3),
        format!("mean throughput    {:.0} kbit/s", qoe.throughput_bps / 1e3),
        format!("abandoned, failed  {}, {} downloads", qoe.abandoned, qoe.failed),
    ];
    if let Some(efficiency) = efficiency {
        lines.push(format!("efficiency         {:.1} %", efficiency * 100.0));
    }
    for entry in &outcome.events {
        match &entry.what {
            LogEvent::Decision(decision) => {
                lines.push(format!("{:7.2} s  {} ({})", entry.at_s, decision.decision, decision.reason));
            }
            LogEvent::Notice { notice } => lines.push(format!("{:7.2} s  {notice}", entry.at_s)),
            LogEvent::Moved { moved_to, zero_rtt } => {
                lines.push(format!("{:7.2} s  {}", entry.at_s, moved(moved_to, *zero_rtt)));
            }
            LogEvent::Player(event) => {
                lines.extend(told(event).map(|text| format!("{:7.2} s  {text}", entry.at_s)))
            }
        }
    }
    lines.join("\n")
}

/// What the summary says of an event of the player, if it is about the title.
fn told(event: &Event) -> Option<String> {
    match event {
        Event::Missing { segment, duration_s, why } => Some(format!(
            "segment {segment}, the last {duration_s:.2} s of its period, does not exist ({why}); played without it"
        )),
        Event::NewLadder { segment, qualities } => {
            Some(format!("from segment {segment} on, the title has {qualities} qualities"))
        }
        _ => None,
    }
}

fn moved(to: &str, zero_rtt: bool) -> String {
    format!("on {to}{}", if zero_rtt { ", with 0-RTT" } else { "" })
}

/// One line over time, in a panel of its own.
fn plot(title: &str, unit: &str, points: Vec<(f64, f64)>, tone: Tone) -> TimeSeries {
    let series = vec![Series::new(title, tone, points)];
    TimeSeries {
        title: title.to_owned(),
        unit: unit.to_owned(),
        series,
        steps: true,
        ..TimeSeries::default()
    }
}

fn page(outcome: &Outcome, efficiency: Option<f64>, run: &RunInfo) -> String {
    let qoe = &outcome.qoe;
    let mut page = HtmlReport::new("DASH playback");
    page.headline(&format!(
        "{:.0} s played with {:.1} s of stalls, at {:.0} kbit/s",
        qoe.played_s,
        qoe.stalled_s,
        qoe.bitrate_bps / 1e3
    ));
    page.lead(&format!("Over {}, bitrate rule {}.", outcome.transports.join(", then "), outcome.rule));
    let seconds = |value: f64| format!("{value:.2}");
    page.card(KeyFigure::new("Start-up delay", &qoe.start_up_s.map_or("none".to_owned(), seconds), "s"))
        .card(KeyFigure::new("Stalled", &seconds(qoe.stalled_s), "s").note(&format!("{} stalls", qoe.stalls)))
        .card(KeyFigure::new("Quality switches", &qoe.switches.to_string(), ""))
        .card(KeyFigure::new("Mean throughput", &format!("{:.2}", qoe.throughput_bps / 1e6), "Mbit/s"));
    if let Some(efficiency) = efficiency {
        page.card(KeyFigure::new("Network efficiency", &format!("{:.1}", efficiency * 100.0), "%"));
    }
    page.section("Over time");
    let kbps =
        |one: &Loaded| outcome.bitrate_bps(one.segment, one.quality).map_or(0.0, |rate| rate as f64 / 1e3);
    let mut chosen: Vec<_> = qoe.segments.iter().map(|loaded| (loaded.requested_s, kbps(loaded))).collect();
    // The last bitrate is drawn to the end of the plot.
    if let (Some((_, last)), Some(second)) = (chosen.last().copied(), qoe.seconds.last()) {
        chosen.push((second.at_s, last));
    }
    page.figure(
        &plot("Bitrate", "kbit/s", chosen, Tone::Hero),
        "Nominal bitrate of each segment, from its request on.",
    );
    let level = qoe.seconds.iter().map(|second| (second.at_s - 1.0, second.buffer_s)).collect();
    page.figure(&plot("Play buffer", "s", level, Tone::RadioA), "Media buffered ahead of the playhead.");
    let rate = qoe.seconds.iter().map(|second| (second.at_s - 1.0, second.throughput_bps / 1e6)).collect();
    page.figure(
        &plot("Throughput", "Mbit/s", rate, Tone::RadioB),
        "Bytes of media that arrived in each second.",
    );
    let is_told = |what: &LogEvent| !matches!(what, LogEvent::Player(event) if told(event).is_none());
    let mut decisions = outcome.events.iter().filter(|entry| is_told(&entry.what)).peekable();
    if decisions.peek().is_some() {
        page.section("Decisions");
    }
    for entry in decisions {
        let text = match &entry.what {
            LogEvent::Decision(decision) => format!("{} ({})", decision.decision, decision.reason),
            LogEvent::Notice { notice } => notice.clone(),
            LogEvent::Moved { moved_to, zero_rtt } => moved(moved_to, *zero_rtt),
            LogEvent::Player(event) => match told(event) {
                Some(text) => text,
                None => continue,
            },
        };
        page.text(&format!("{:.2} s: {text}", entry.at_s));
    }
    page.made(run);
    page.render()
}
