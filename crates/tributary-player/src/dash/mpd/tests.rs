//! Manifests with every form of addressing, hostile manifests, and the fixtures of other projects.

mod tolerance;

use super::*;

const URL: &str = "https://example.com/title/manifest.mpd?token=1";

fn mpd(body: &str) -> Result<Mpd, MpdError> {
    let text = format!(
        r#"<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"
           mediaPresentationDuration="PT10S" minBufferTime="PT2S">{body}</MPD>"#
    );
    Mpd::read(text.as_bytes(), URL)
}

fn video(representation: &str) -> Result<Mpd, MpdError> {
    mpd(&format!(
        r#"<Period><AdaptationSet mimeType="video/mp4"><Representation id="v1" bandwidth="45000">{representation}
           </Representation></AdaptationSet></Period>"#
    ))
}

fn first(mpd: &Mpd) -> &Representation {
    &mpd.periods[0].sets[0].representations[0]
}

#[test]
fn a_file_with_an_index() {
    let mpd = video(
        r#"<BaseURL>v1.mp4</BaseURL><SegmentBase indexRange="786-1009"><Initialization range="0-785"/></SegmentBase>"#,
    )
    .expect("a valid manifest");
    let representation = first(&mpd);
    assert_eq!(mpd.periods[0].set("video").expect("the set").representations.len(), 1);
    let range = |first, last| ByteRange { first, last: Some(last) };
    assert_eq!(
        representation.addressing,
        Addressing::Base {
            url: "https://example.com/title/v1.mp4".to_owned(),
            initialization: Some(range(0, 785)),
            index: Some(range(786, 1009)),
            offset: None,
            period: Some(Duration::from_secs(10)),
        }
    );
}

#[test]
fn a_template_with_a_fixed_duration_ends_with_the_period() {
    let mpd = video(
        r#"<SegmentTemplate media="$RepresentationID$/$Number%05d$-$Bandwidth$.m4s" initialization="i$$.mp4"
            duration="4000" timescale="1000" startNumber="7"/>"#,
    )
    .expect("a valid manifest");
    let addressing = &first(&mpd).addressing;
    assert_eq!(addressing.segments(), Some(3));
    assert_eq!(addressing.initialization().expect("one").url, "https://example.com/title/i$.mp4");
    let (request, span) = addressing.segment(2).expect("the last segment");
    assert_eq!(request.url, "https://example.com/title/v1/00009-45000.m4s");
    assert_eq!((span.start.as_secs(), span.duration.as_secs()), (8, 2));
    assert_eq!(addressing.segment(3), None);
    assert_eq!(addressing.durations().expect("a title of known length"), each(addressing));
}

#[test]
fn a_timeline_with_repeats_gaps_and_an_open_end() {
    let mpd = video(
        r#"<SegmentTemplate media="t$Time$.m4s" timescale="10" presentationTimeOffset="100"><SegmentTimeline>
            <S t="100" d="20" r="1"/><S t="150" d="10" r="-1"/></SegmentTimeline></SegmentTemplate>"#,
    )
    .expect("a valid manifest");
    let addressing = &first(&mpd).addressing;
    assert_eq!(
        addressing.segments(),
        Some(7),
        "2 of 2 s, then 1 s each from 5 s to the period's end at 10 s"
    );
    let (request, span) = addressing.segment(2).expect("the first after the gap");
    assert_eq!(request.url, "https://example.com/title/t150.m4s");
    assert_eq!(span.start, Duration::from_secs(5));
    assert_eq!(addressing.durations().expect("a timeline"), each(addressing));
}

/// The durations of all segments, queried one by one.
fn each(addressing: &Addressing) -> Vec<Duration> {
    (0..).map_while(|at| addressing.segment(at)).map(|(_, span)| span.duration).collect()
}

#[test]
fn a_list_of_segments() {
    let mpd = video(
        r#"<SegmentList duration="5" timescale="1"><Initialization sourceURL="i.mp4"/>
            <SegmentURL media="a.m4s"/><SegmentURL media="b.m4s" mediaRange="5-9"/></SegmentList>"#,
    )
    .expect("a valid manifest");
    let (request, span) = first(&mpd).addressing.segment(1).expect("the second");
    assert_eq!(request.url, "https://example.com/title/b.m4s");
    assert_eq!(request.range.and_then(|range| range.length()), Some(5));
    assert_eq!(span.start, Duration::from_secs(5));
}

#[test]
fn periods_follow_each_other() {
    let one = r#"<AdaptationSet contentType="video"><Representation id="a" bandwidth="1"><BaseURL>a</BaseURL>
        </Representation></AdaptationSet>"#;
    let mpd =
        mpd(&format!(r#"<Period duration="PT3S">{one}</Period><Period>{one}</Period>"#)).expect("valid");
    let times: Vec<_> =
        mpd.periods.iter().map(|p| (p.start.as_secs(), p.duration.map(|d| d.as_secs()))).collect();
    assert_eq!(times, [(0, Some(3)), (3, Some(7))]);
}

#[test]
fn representations_are_sorted_by_bandwidth_and_urls_percent_encoded() {
    let mpd = mpd(
        r#"<Period><BaseURL>../other title/</BaseURL><AdaptationSet contentType="video">
            <Representation id="b" bandwidth="200"/><Representation id="a" bandwidth="100"/></AdaptationSet></Period>"#,
    )
    .expect("a valid manifest");
    assert_eq!(first(&mpd).id, "a");
    let Addressing::Base { url, .. } = &first(&mpd).addressing else { panic!("{:?}", first(&mpd)) };
    assert_eq!(url, "https://example.com/other%20title/");
}

#[test]
fn hostile_manifests_are_refused_with_a_reason() {
    let refused = |text: &str| Mpd::read(text.as_bytes(), URL).expect_err("hostile").to_string();
    let bomb = r#"<!DOCTYPE MPD [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><MPD>&b;</MPD>"#;
    assert!(refused(bomb).contains("DOCTYPE"), "{}", refused(bomb));
    assert!(refused("<MPD>&b;</MPD>").contains("unknown entity"));
    let deep = "<MPD>".repeat(100);
    assert!(refused(&deep).contains("more than 32 nested elements"));
    assert!(refused("<html></html>").contains("not `MPD`"));
    assert!(refused("<MPD><Period>").contains("ends within <Period>"));
    assert!(refused("").contains("no element"));
    assert!(refused("<MPD/>").contains("<MPD> has no Period"));
    assert_eq!(Mpd::read(&vec![b' '; MAX_BYTES + 1], URL), Err(MpdError::TooLarge(MAX_BYTES + 1)));
}

#[test]
fn huge_numbers_are_refused_or_bounded() {
    let timeline = |s: &str| {
        video(&format!(
            r#"<SegmentTemplate media="$Time$"><SegmentTimeline>{s}</SegmentTimeline></SegmentTemplate>"#
        ))
    };
    assert!(timeline(r#"<S d="1" r="9223372036854775807"/>"#).is_err());
    assert!(timeline(r#"<S t="18446744073709551615" d="2"/>"#).is_err());
    assert!(timeline(r#"<S d="0"/>"#).is_err());
    assert!(timeline(r#"<S d="1" r="-1"/>"#).expect("ten segments of 1 s").periods.len() == 1);
    let template =
        |attributes: &str| video(&format!(r#"<SegmentTemplate media="$Number%099999999d$" {attributes}/>"#));
    assert!(template(r#"duration="0""#).is_err());
    assert!(template(r#"duration="4" timescale="0""#).is_err());
    let most =
        template(r#"duration="1" timescale="18446744073709551615" startNumber="18446744073709551615""#);
    let most = most.expect("odd, but readable");
    assert_eq!(first(&most).addressing.segments(), Some(MAX_SEGMENTS));
    assert_eq!(first(&most).addressing.segment(1), None, "its number does not fit 64 bits");
    let (request, _) = first(&most).addressing.segment(0).expect("the first");
    assert!(request.url.len() < 100, "{}", request.url);
}

#[test]
fn every_truncation_of_a_manifest_is_an_error_or_a_manifest() {
    let text = r#"<MPD mediaPresentationDuration="PT9S"><Period><AdaptationSet><Representation id="é" bandwidth="9">
        <SegmentTemplate media="$Number$" duration="2"/></Representation></AdaptationSet></Period></MPD>"#;
    for end in 0..text.len() {
        assert!(Mpd::read(&text.as_bytes()[..end], URL).is_err(), "{end} bytes");
    }
    assert!(Mpd::read(text.as_bytes(), URL).is_ok());
}

/// Every fixture is read; those that are not played are listed here with the reason.
#[test]
fn the_fixtures_of_other_projects_are_read() {
    let Some(folder) = tributary_testing::data("mpd-fixtures") else { return };
    let mut read = 0;
    let (mut refused, mut unplayed) = (Vec::new(), Vec::new());
    for project in
        std::fs::read_dir(&folder).expect("a folder").flatten().filter(|entry| entry.path().is_dir())
    {
        for file in std::fs::read_dir(project.path()).expect("a folder").flatten() {
            if file.path().extension().is_none_or(|extension| extension != "mpd") {
                continue;
            }
            let text = std::fs::read(file.path()).expect("a file");
            match Mpd::read(&text, URL) {
                Ok(mpd) => {
                    read += 1;
                    let name = file.file_name().to_string_lossy().into_owned();
                    unplayed.extend(unplayed_because(&mpd).map(|why| format!("{name}: {why}")));
                    for representation in
                        mpd.periods.iter().flat_map(|p| &p.sets).flat_map(|s| &s.representations)
                    {
                        let addressing = &representation.addressing;
                        let segments = addressing.segments();
                        assert!(
                            segments == Some(0)
                                || addressing.segment(0).is_some()
                                || matches!(addressing, Addressing::Base { .. }),
                            "{}: {representation:?}",
                            file.path().display()
                        );
                    }
                }
                Err(error) => refused.push(format!("{}: {error}", file.file_name().to_string_lossy())),
            }
        }
    }
    refused.sort();
    println!("{read} manifests read; refused: {refused:#?}");
    assert_eq!((read, refused), (31, Vec::new()));
    unplayed.sort();
    println!("not played: {unplayed:#?}");
    assert_eq!(unplayed, UNPLAYED);
}

/// Why a manifest is not played, as far as it alone says.
fn unplayed_because(mpd: &Mpd) -> Option<String> {
    if mpd.live {
        return Some("live".to_owned());
    }
    let why = |period: &Period| match period.video() {
        Ok(set) if matches!(set.representations[0].addressing, Addressing::Base { .. }) => None,
        Ok(set) => set.representations[0].addressing.durations().map_or(Some("endless".to_owned()), |_| None),
        Err(why) => Some(why),
    };
    mpd.periods.iter().find_map(why)
}

/// The others are played if their server has the files.
const UNPLAYED: [&str; 8] = [
    "audio-only.mpd: an AdaptationSet is audio; an AdaptationSet is audio",
    "dashif-low-latency.mpd: live",
    "events.mpd: live",
    "f64-inf.mpd: live",
    "multiperiod-dynamic.mpd: live",
    "multiperiod-startnumber.mpd: live",
    "patch-location2.mpd: live",
    "truncate_short.mpd: live",
];
