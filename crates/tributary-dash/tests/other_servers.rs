//! The headless client with servers and titles of others: redirects, servers without byte ranges or with short ones,
//! segments that exist only in the manifest, and periods with other qualities.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tributary_dash::client::{
    self, ClientConfig, ClientError, Entry, LogEvent, Outcome, TransportChoice, TransportPaths,
};
use tributary_net::transport::TransportConfig;
use tributary_player::dash::play::{Event, Settings};

type Files = BTreeMap<String, Vec<u8>>;

/// A request: its path, and its range with both ends included.
struct Asked {
    path: String,
    range: Option<(usize, Option<usize>)>,
}

/// A server of one's own making. Connections stay open until the client closes them.
fn serve(answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || talk(stream, answer.as_ref()));
        }
    });
    address
}

fn talk(mut stream: TcpStream, answer: &dyn Fn(&Asked) -> Vec<u8>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while let Some(Ok(first)) = lines.next() {
        let headers: Vec<_> =
            lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let range = headers.iter().find_map(|line| {
            let (first, last) = line.strip_prefix("range: bytes=")?.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()))
        });
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        // The client may close before it has read everything.
        if stream.write_all(&answer(&Asked { path, range })).is_err() {
            return;
        }
    }
}

fn respond(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Answers as most servers do.
fn ordinary(files: &Files, asked: &Asked, most: usize) -> Vec<u8> {
    let Some(file) = files.get(&asked.path) else { return respond("404 Not Found", "", b"no such file") };
    let Some((first, last)) = asked.range else { return respond("200 OK", "", file) };
    let last = last.unwrap_or(usize::MAX).min(file.len() - 1).min(first.saturating_add(most - 1));
    let headers = format!("Content-Range: bytes {first}-{last}/{}\r\n", file.len());
    respond("206 Partial Content", &headers, &file[first..=last])
}

async fn play(address: SocketAddr, path: &str) -> Result<(Outcome, Vec<u8>), ClientError> {
    let directory = tempfile::tempdir().unwrap();
    let tenth = Duration::from_millis(100);
    let saved = directory.path().join("saved");
    let config = ClientConfig {
        url: format!("http://{address}{path}"),
        transport: TransportChoice::One(Box::new(TransportPaths {
            config: TransportConfig::new("tcp".parse().unwrap()),
            paths: vec![format!("any={address}").parse().unwrap()],
        })),
        rule: "throughput".to_owned(),
        settings: Settings {
            start_with: tenth,
            resume_with: tenth,
            rest: Duration::from_millis(1),
            ..Settings::default()
        },
        most: None,
        save: Some(saved.clone()),
    };
    let outcome = client::play(config, &mut |_| {}).await?;
    Ok((outcome, std::fs::read(saved).unwrap()))
}

fn media(name: &str, segment: usize) -> Vec<u8> {
    let seed = name.bytes().map(usize::from).sum::<usize>();
    (0..3000).map(|at| (seed * 13 + segment * 31 + at * 7 + at / 256) as u8).collect()
}

/// A file of three segments of 100 ms, and where its index begins and ends.
fn single_file() -> (Vec<u8>, usize, usize) {
    let mut file = vec![0, 0, 0, 16];
    file.extend(b"ftypabcdefgh");
    let begin = file.len();
    for word in [32 + 36, u32::from_be_bytes(*b"sidx"), 0, 1, 1000, 0, 0, 3] {
        file.extend(word.to_be_bytes());
    }
    for word in [3000_u32, 100, 0x9000_0000].repeat(3) {
        file.extend(word.to_be_bytes());
    }
    let end = file.len();
    (0..3).for_each(|segment| file.extend(media("v", segment)));
    (file, begin, end)
}

fn mpd(seconds: f64, periods: &str) -> Vec<u8> {
    format!("<MPD mediaPresentationDuration='PT{seconds}S'>{periods}</MPD>").into_bytes()
}

fn video(representations: &str) -> String {
    format!("<AdaptationSet contentType='video'>{representations}</AdaptationSet>")
}

fn single_file_title(with_index: bool) -> Files {
    let (file, begin, end) = single_file();
    let base = match with_index {
        true => format!("<SegmentBase indexRange='{begin}-{}'/>", end - 1),
        false => String::new(),
    };
    let one =
        format!("<Representation id='v' bandwidth='240000'><BaseURL>v.mp4</BaseURL>{base}</Representation>");
    let text = mpd(0.3, &format!("<Period>{}</Period>", video(&one)));
    Files::from([("/manifest.mpd".to_owned(), text), ("/v.mp4".to_owned(), file)])
}

/// Segments `first..first + count` of a representation below `folder`.
fn add(files: &mut Files, folder: &str, name: &str, numbers: std::ops::RangeInclusive<usize>) {
    for segment in numbers {
        files.insert(format!("{folder}/{name}/{segment}.m4s"), media(name, segment));
    }
}

const TEMPLATE: &str =
    "<SegmentTemplate timescale='10' duration='1' media='$RepresentationID$/$Number$.m4s' startNumber='1'/>";

fn notices(outcome: &Outcome) -> Vec<String> {
    let notice = |entry: &Entry| match &entry.what {
        LogEvent::Notice { notice } => Some(notice.clone()),
        _ => None,
    };
    outcome.events.iter().filter_map(notice).collect()
}

fn assert_played(outcome: &Outcome, seconds: f64) {
    assert_eq!(outcome.given_up, None);
    assert!((outcome.qoe.played_s - seconds).abs() < 1e-6, "{} s played", outcome.qoe.played_s);
    assert_eq!((outcome.qoe.failed, outcome.qoe.stalls), (0, 0), "{:?}", outcome.events);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_are_cut_out_of_the_whole_file_when_the_server_sends_no_ranges() {
    for with_index in [true, false] {
        let files = single_file_title(with_index);
        let (file, _, end) = single_file();
        let address =
            serve(move |asked| ordinary(&files, &Asked { path: asked.path.clone(), range: None }, 1));
        let (outcome, saved) = play(address, "/manifest.mpd").await.unwrap();
        assert_played(&outcome, 0.3);
        let notices = notices(&outcome);
        assert!(matches!(&notices[..], [one] if one.contains("sends no byte ranges")), "{notices:?}");
        let expected = if with_index { [&file[..16], &file[end..]].concat() } else { file[end..].to_vec() };
        assert!(saved == expected, "media was lost, doubled or reordered");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rest_of_a_short_range_is_asked_for_again() {
    let files = single_file_title(true);
    let (file, _, end) = single_file();
    let address = serve(move |asked| ordinary(&files, asked, 70));
    let (outcome, saved) = play(address, "/manifest.mpd").await.unwrap();
    assert_played(&outcome, 0.3);
    assert!(saved == [&file[..16], &file[end..]].concat(), "media was lost, doubled or reordered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_are_followed_and_relative_urls_start_where_they_lead() {
    let mut files = Files::new();
    add(&mut files, "/cdn", "v", 1..=5);
    let one = format!("<Representation id='v' bandwidth='240000'>{TEMPLATE}</Representation>");
    files.insert("/new/manifest.mpd".to_owned(), mpd(0.5, &format!("<Period>{}</Period>", video(&one))));
    let statuses = ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"];
    let address = serve(move |asked| {
        let to =
            |status: &str, location: &str| respond(status, &format!("Location: {location}\r\n"), b"moved");
        match asked.path.as_str() {
            "/old/manifest.mpd" => to("302 Found", "../new/manifest.mpd"),
            "/loop.mpd" => to("301 Moved", "/loop.mpd"),
            "/elsewhere.mpd" => to("307 Temporary", "http://video.example.org/manifest.mpd"),
            "/nowhere.mpd" => respond("302 Found", "", b""),
            "/odd.mpd" => to("302 Found", "ftp://127.0.0.1/manifest.mpd"),
            path => match path.strip_prefix("/new/v/").and_then(|name| name.strip_suffix(".m4s")) {
                Some(number) => {
                    let status = statuses[number.parse::<usize>().unwrap() - 1];
                    to(status, &format!("/cdn/v/{number}.m4s"))
                }
                None => ordinary(&files, asked, usize::MAX),
            },
        }
    });
    let (outcome, saved) = play(address, "/old/manifest.mpd").await.unwrap();
    assert_played(&outcome, 0.5);
    assert!(saved == (1..=5).flat_map(|segment| media("v", segment)).collect::<Vec<_>>());
    for (path, said) in [
        ("/loop.mpd", "redirects more than 10 times"),
        ("/elsewhere.mpd", "`http://video.example.org/manifest.mpd` is not on 127.0.0.1"),
        ("/nowhere.mpd", "redirects to ``, which is not a URL"),
        ("/odd.mpd", "`ftp://127.0.0.1/manifest.mpd` is not a URL that can be fetched"),
    ] {
        let error = play(address, path).await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_that_only_a_rounded_duration_counts_is_not_needed() {
    let mut files = Files::new();
    add(&mut files, "", "v", 1..=3);
    let one = video(&format!("<Representation id='v' bandwidth='240000'>{TEMPLATE}</Representation>"));
    files.insert("/alone.mpd".to_owned(), mpd(0.32, &format!("<Period>{one}</Period>")));
    let two = format!("<Period duration='PT0.32S'>{one}</Period><Period duration='PT0.3S'>{one}</Period>");
    files.insert("/two.mpd".to_owned(), mpd(0.62, &two));
    files.insert("/longer.mpd".to_owned(), mpd(0.38, &format!("<Period>{one}</Period>")));
    let address = serve(move |asked| ordinary(&files, asked, usize::MAX));
    let once: Vec<u8> = (1..=3).flat_map(|segment| media("v", segment)).collect();
    for (path, seconds, times) in [("/alone.mpd", 0.3, 1), ("/two.mpd", 0.6, 2)] {
        let (outcome, saved) = play(address, path).await.unwrap();
        assert_played(&outcome, seconds);
        let missing = outcome.events.iter().filter_map(|entry| match &entry.what {
            LogEvent::Player(Event::Missing { segment, duration_s, why }) => {
                Some((*segment, *duration_s, why))
            }
            _ => None,
        });
        let missing: Vec<_> = missing.collect();
        assert!(matches!(missing[..], [(3, 0.02, why)] if why.contains("404")), "{missing:?}");
        assert!(saved == once.repeat(times), "{path}");
    }
    // Most of a segment is no rounding.
    let (outcome, _) = play(address, "/longer.mpd").await.unwrap();
    assert!(outcome.given_up.is_some_and(|why| why.contains("segment 3") && why.contains("404")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_period_is_played_from_its_own_ladder() {
    let mut files = Files::new();
    let representations = |bandwidths: &[u32]| {
        let one = |rate: &u32| format!("<Representation id='{rate}' bandwidth='{rate}'/>");
        let template = TEMPLATE.replace("media=", "initialization='$RepresentationID$/init' media=");
        video(&format!("{template}{}", bandwidths.iter().map(one).collect::<String>()))
    };
    let (film, advert) = ([10_000, 20_000, 40_000], [15_000]);
    for rate in film.iter().chain(&advert) {
        add(&mut files, "", &rate.to_string(), 1..=4);
        files.insert(format!("/{rate}/init"), format!("init of {rate}").into_bytes());
    }
    let period = |rates: &[u32]| format!("<Period duration='PT0.4S'>{}</Period>", representations(rates));
    let periods = [period(&film), period(&advert), period(&film)].concat();
    files.insert("/manifest.mpd".to_owned(), mpd(1.2, &periods));
    let address = serve(move |asked| ordinary(&files, asked, usize::MAX));
    let (outcome, saved) = play(address, "/manifest.mpd").await.unwrap();
    assert_played(&outcome, 1.2);
    let loaded = &outcome.qoe.segments;
    assert_eq!(loaded.iter().map(|one| one.segment).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
    let rates: Vec<u64> =
        loaded.iter().map(|one| outcome.bitrate_bps(one.segment, one.quality).expect("a quality")).collect();
    assert!(rates[4..8].iter().all(|rate| *rate == 15_000), "{rates:?}");
    assert!(rates[..4].iter().chain(&rates[8..]).all(|rate| film.contains(&(*rate as u32))), "{rates:?}");
    assert!(rates[8..].contains(&40_000), "the ladder of the film is used again: {rates:?}");
    let mut expected = Vec::new();
    for (at, rate) in rates.iter().enumerate() {
        if at == 0 || rates[at - 1] != *rate {
            expected.extend(format!("init of {rate}").into_bytes());
        }
        expected.extend(media(&rate.to_string(), at % 4 + 1));
    }
    assert!(saved == expected, "media was lost, doubled or reordered");
    let mean = rates.iter().sum::<u64>() as f64 / 12.0;
    assert!((outcome.qoe.bitrate_bps - mean).abs() < 1.0, "{} and {mean}", outcome.qoe.bitrate_bps);
    let entered = outcome.events.iter().filter_map(|entry| match entry.what {
        LogEvent::Player(Event::NewLadder { segment, qualities }) => Some((segment, qualities)),
        _ => None,
    });
    assert_eq!(entered.collect::<Vec<_>>(), [(4, 1), (8, 3)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn titles_that_cannot_be_played_are_refused_with_the_element() {
    let mut files = Files::new();
    let whole = "<Representation id='v' bandwidth='9'><BaseURL>nothing.mp4</BaseURL></Representation>";
    files.insert("/no-index.mpd".to_owned(), mpd(0.3, &format!("<Period>{}</Period>", video(whole))));
    files.insert("/nothing.mp4".to_owned(), vec![0; 500]);
    files.insert(
        "/sound.mpd".to_owned(),
        mpd(0.3, &format!("<Period>{}</Period>", video(whole)).replace("video", "audio")),
    );
    let endless = video(&format!("<Representation id='v' bandwidth='9'>{TEMPLATE}</Representation>"));
    files.insert("/endless.mpd".to_owned(), format!("<MPD><Period>{endless}</Period></MPD>").into_bytes());
    let address = serve(move |asked| ordinary(&files, asked, usize::MAX));
    for (path, said) in [
        ("/no-index.mpd", "<Representation> `v` is one file without a segment index"),
        ("/sound.mpd", "<Period> 0 has no video: an AdaptationSet is audio"),
        ("/endless.mpd", "<Period> 0 has neither a duration"),
    ] {
        let error = play(address, path).await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
