//! Where the recording machine is, and how strong its radios' signals are, once a second, where the system tells.
//!
//! Position: gpsd, by its JSON protocol (gpsd_json(5)). Signal strength: `/proc/net/wireless`, else `iw dev NAME link`, else
//! ModemManager's `mmcli`. What is not there is said to be absent, with the reason.

use core::time::Duration;
use serde::Deserialize;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Time for gpsd to take a connection, and between two looks at whether it is still wanted.
const PATIENCE: Duration = Duration::from_secs(2);
/// A position is not used for longer.
const FRESH: Duration = Duration::from_secs(3);
/// Longest line of gpsd.
const LONGEST: usize = 64 << 10;

/// A position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    /// Degrees north and east (WGS 84).
    pub latitude: f64,
    pub longitude: f64,
    /// Metres above mean sea level.
    pub altitude: Option<f64>,
    /// Metres a second.
    pub speed: Option<f64>,
}

/// A radio's signal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Signal {
    /// Received power, dBm.
    pub dbm: Option<f64>,
    /// What ModemManager calls quality, per cent.
    pub quality: Option<f64>,
}

/// What was seen in one second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Since the beginning.
    pub at: Duration,
    pub position: Option<Position>,
    /// Of each path.
    pub signals: Vec<Option<Signal>>,
}

#[derive(Debug)]
struct Shared {
    samples: Vec<Sample>,
    /// The latest position, and when it came.
    position: Option<(Instant, Position)>,
    /// Why there is no position, and no signal of each path.
    no_position: String,
    no_signal: Vec<String>,
}

/// What the system tells, from the beginning on. Dropping it ends it.
#[derive(Debug)]
pub struct Surroundings {
    names: Vec<String>,
    shared: Arc<Mutex<Shared>>,
    stop: Arc<AtomicBool>,
}

impl Surroundings {
    /// Looks every second after `began`, for paths with their interfaces, and asks the gpsd at this address.
    #[must_use]
    pub fn start(began: Instant, paths: Vec<(String, Option<String>)>, gpsd: SocketAddr) -> Self {
        let (names, interfaces): (Vec<_>, Vec<_>) = paths.into_iter().unzip();
        let shared = Arc::new(Mutex::new(Shared {
            samples: Vec::new(),
            position: None,
            no_position: format!("gpsd at {gpsd} has none yet"),
            no_signal: vec!["not asked yet".to_owned(); interfaces.len()],
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, ended) = (shared.clone(), stop.clone());
        // A program that hangs must not keep the recording from its end: nobody waits for these threads.
        std::thread::spawn(move || look(began, &interfaces, &seen, &ended));
        let (seen, ended) = (shared.clone(), stop.clone());
        std::thread::spawn(move || {
            if let Err(error) = follow(gpsd, &seen, &ended) {
                lock(&seen).no_position = format!("gpsd at {gpsd}: {error}");
            }
        });
        Self { names, shared, stop }
    }

    /// One sentence for the position, and one for each path's signal: that it is recorded, or why it is absent.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let shared = lock(&self.shared);
        let position = match shared.samples.iter().any(|sample| sample.position.is_some()) {
            true => "position: in the table of samples".to_owned(),
            false => format!("position: absent ({})", shared.no_position),
        };
        let signal = |(path, name): (usize, &String)| {
            let has = |sample: &Sample| sample.signals.get(path).is_some_and(Option::is_some);
            match shared.samples.iter().any(has) {
                true => format!("{name}: signal strength: in the table of samples"),
                false => format!("{name}: signal strength: absent ({})", shared.no_signal[path]),
            }
        };
        [position].into_iter().chain(self.names.iter().enumerate().map(signal)).collect()
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        lock(&self.shared).samples.clone()
    }
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a sample every second.
fn look(began: Instant, interfaces: &[Option<String>], shared: &Mutex<Shared>, stop: &AtomicBool) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep((began + EVERY * number).saturating_duration_since(Instant::now()));
        let signals: Vec<Result<Signal, String>> = interfaces
            .iter()
            .map(|interface| {
                interface.as_deref().map_or(Err("no interface has its address".to_owned()), signal)
            })
            .collect();
        let at = began.elapsed();
        number = at.as_secs() as u32 + 1;
        let mut shared = lock(shared);
        let position =
            shared.position.filter(|(came, _)| came.elapsed() < FRESH).map(|(_, position)| position);
        for (reason, signal) in shared.no_signal.iter_mut().zip(&signals) {
            if let Err(absent) = signal {
                reason.clone_from(absent);
            }
        }
        let signals = signals.into_iter().map(Result::ok).collect();
        shared.samples.push(Sample { at, position, signals });
    }
}

/// The signal of an interface, or why there is none.
fn signal(interface: &str) -> Result<Signal, String> {
    let table = std::fs::read_to_string("/proc/net/wireless").unwrap_or_default();
    if let Some(dbm) = wireless(&table, interface) {
        return Ok(Signal { dbm: Some(dbm), quality: None });
    }
    let iw = output("iw", &["dev", interface, "link"]).map(|text| iw_link(&text));
    if let Ok(Some(dbm)) = iw {
        return Ok(Signal { dbm: Some(dbm), quality: None });
    }
    let quality = output("mmcli", &["-L", "-J"]).map(|list| {
        let modems = modems(&list).into_iter();
        modems
            .filter_map(|modem| output("mmcli", &["-m", &modem, "-J"]).ok())
            .find_map(|text| quality(&text, interface))
    });
    match quality {
        Ok(Some(quality)) => Ok(Signal { dbm: None, quality: Some(quality) }),
        other => {
            let said = |reason: Option<String>, none: &str| reason.unwrap_or_else(|| none.to_owned());
            let iw = said(iw.err(), "iw knows no signal");
            Err(format!("{iw}; {}", said(other.err(), "ModemManager has no modem with this interface")))
        }
    }
}

/// What a program prints; else why it does not.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{program}: {}", said.lines().next().unwrap_or("it failed").trim()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!("{program} is not installed")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// The level of an interface in `/proc/net/wireless`, dBm. Values of 8 bits that are not negative are dBm plus 256.
fn wireless(table: &str, interface: &str) -> Option<f64> {
    let line = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    let level: f64 = line.split_whitespace().nth(2)?.trim_end_matches('.').parse().ok()?;
    let dbm = if level > 0.0 { level - 256.0 } else { level };
    (dbm < 0.0 && dbm > -200.0).then_some(dbm)
}

/// The signal of `iw dev NAME link`, dBm.
fn iw_link(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("signal:"))?;
    line.trim().strip_suffix("dBm")?.trim().parse().ok()
}

#[derive(Deserialize)]
struct ModemList {
    #[serde(rename = "modem-list")]
    modems: Vec<String>,
}

fn modems(json: &str) -> Vec<String> {
    serde_json::from_str::<ModemList>(json).map(|list| list.modems).unwrap_or_default()
}

/// The quality of the modem of `mmcli -m … -J`, if it has this interface.
fn quality(json: &str, interface: &str) -> Option<f64> {
    let about: serde_json::Value = serde_json::from_str(json).ok()?;
    let generic = &about["modem"]["generic"];
    let port = format!("{interface} (net)");
    let own = generic["ports"].as_array()?.iter().any(|known| known.as_str() == Some(&port));
    own.then(|| generic["signal-quality"]["value"].as_str()?.parse().ok()).flatten()
}

/// A report of gpsd; other classes are ignored.
#[derive(Deserialize)]
struct GpsReport {
    class: String,
    /// 2: two dimensions, 3: three.
    #[serde(default)]
    mode: u8,
    lat: Option<f64>,
    lon: Option<f64>,
    #[serde(rename = "altMSL", alias = "alt")]
    altitude: Option<f64>,
    speed: Option<f64>,
}

fn position(line: &str) -> Option<Position> {
    let report: GpsReport =
        serde_json::from_str(line).ok().filter(|report: &GpsReport| report.class == "TPV")?;
    let (latitude, longitude) = (report.lat?, report.lon?);
    let has = report.mode >= 2 && latitude.abs() <= 90.0 && longitude.abs() <= 180.0;
    has.then_some(Position { latitude, longitude, altitude: report.altitude, speed: report.speed })
}

/// Follows gpsd until `stop` is set or it ends.
fn follow(gpsd: SocketAddr, shared: &Mutex<Shared>, stop: &AtomicBool) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&gpsd, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"?WATCH={\"enable\":true,\"json\":true};\n")?;
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let wait = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
        match reader.fill_buf() {
            Ok([]) => return Err(io::Error::other("it has closed the connection")),
            Ok(bytes) => {
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let used = end.map_or(bytes.len(), |end| end + 1);
                line.extend_from_slice(&bytes[..used]);
                reader.consume(used);
                if end.is_some() {
                    if let Some(position) = core::str::from_utf8(&line).ok().and_then(position) {
                        lock(shared).position = Some((Instant::now(), position));
                    }
                    line.clear();
                } else if line.len() > LONGEST {
                    return Err(io::Error::other("it does not speak gpsd's protocol"));
                }
            }
            Err(error) if wait.contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use tributary_testing::until;

    #[test]
    fn signals_are_read_from_what_programs_print() {
        let table = "Inter-| sta-|   Quality        |   Discarded packets\n face | tus | link level noise |\n\
                     wlan0: 0000   54.  -56.  -256        0      0\n wlan1: 0000   54.  200.  0 0\n";
        assert_eq!(wireless(table, "wlan0"), Some(-56.0));
        assert_eq!(wireless(table, "wlan1"), Some(-56.0));
        assert_eq!(wireless(table, "wlan"), None);
        let link = "Connected to 00:11:22:33:44:55 (on wlan0)\n\tSSID: home\n\tsignal: -61 dBm\n";
        assert_eq!((iw_link(link), iw_link("Not connected.\n")), (Some(-61.0), None));
        let modem = r#"{"modem":{"generic":{"ports":["cdc-wdm0 (qmi)","wwan0 (net)"],"signal-quality":{"recent":"yes","value":"67"}}}}"#;
        assert_eq!(
            (quality(modem, "wwan0"), quality(modem, "wwan1"), quality("?", "x")),
            (Some(67.0), None, None)
        );
        assert_eq!(modems(r#"{"modem-list":["/org/freedesktop/ModemManager1/Modem/0"]}"#).len(), 1);
        let missing = output("no-such-program-here", &[]).unwrap_err();
        assert!(missing.contains("not installed"), "{missing}");
    }

    #[test]
    fn a_position_needs_a_fix() {
        let tpv = r#"{"class":"TPV","mode":3,"lat":52.5,"lon":13.4,"altMSL":34.0,"speed":1.5}"#;
        let found = position(tpv).unwrap();
        assert_eq!(
            (found.latitude, found.longitude, found.altitude, found.speed),
            (52.5, 13.4, Some(34.0), Some(1.5))
        );
        for other in [
            r#"{"class":"TPV","mode":1}"#,
            r#"{"class":"SKY"}"#,
            "nonsense",
            r#"{"class":"TPV","mode":2,"lat":500,"lon":1}"#,
        ] {
            assert_eq!(position(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_there_is_sampled_and_what_is_not_is_said_to_be_absent() {
        let gpsd = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = gpsd.local_addr().unwrap();
        let paths = vec![("lo".to_owned(), Some("lo".to_owned())), ("far".to_owned(), None)];
        let surroundings = Surroundings::start(Instant::now(), paths.clone(), address);
        let (mut stream, _) = gpsd.accept().unwrap();
        let report = |lat: f64| format!("{{\"class\":\"TPV\",\"mode\":2,\"lat\":{lat},\"lon\":2}}\n");
        until("a position is sampled", || {
            stream.write_all(report(1.0).as_bytes()).unwrap();
            surroundings
                .samples()
                .iter()
                .any(|sample| sample.position.is_some_and(|found| found.latitude == 1.0))
        });
        let notes = surroundings.notes();
        assert!(notes[0].starts_with("position: in"), "{notes:?}");
        assert!(
            notes[1].starts_with("lo: signal strength: absent (") && notes[2].contains("interface"),
            "{notes:?}"
        );
        drop((stream, gpsd));
        let nobody = Surroundings::start(Instant::now(), paths, address);
        until("the refusal is noted", || nobody.notes()[0].contains("refused"));
        assert!(nobody.notes()[0].starts_with("position: absent (gpsd at 127.0.0.1"), "{:?}", nobody.notes());
    }
}
