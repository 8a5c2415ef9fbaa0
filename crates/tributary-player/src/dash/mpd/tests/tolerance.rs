//! Manifests that other players play although they are unusual: the played segments are exactly the presentation's, and
//! what is refused names its element.

use super::*;

/// Start and duration of each segment in milliseconds.
fn spans(addressing: &Addressing) -> Vec<(u128, u128)> {
    let spans = (0..).map_while(|at| addressing.segment(at)).map(|(_, span)| span);
    spans.map(|span| (span.start.as_millis(), span.duration.as_millis())).collect()
}

fn urls(addressing: &Addressing) -> Vec<String> {
    let all = (0..).map_while(|at| addressing.segment(at)).map(|(request, _)| request.url);
    all.map(|url| url.rsplit('/').next().unwrap_or_default().to_owned()).collect()
}

fn segments(info: &str) -> Addressing {
    first(&video(info).unwrap_or_else(|error| panic!("{info}: {error}"))).addressing.clone()
}

fn refusal(info: &str) -> String {
    video(info).expect_err(info).to_string()
}

#[test]
fn a_list_has_the_times_of_its_timeline() {
    let url = |name: &str| format!(r#"<SegmentURL media="{name}"/>"#);
    let list = segments(&format!(
        r#"<SegmentList timescale="90000"><SegmentTimeline><S t="0" d="360000" r="2"/></SegmentTimeline>{}{}{}</SegmentList>"#,
        url("a"),
        url("b"),
        url("c")
    ));
    assert_eq!(spans(&list), [(0, 4000), (4000, 4000), (8000, 2000)], "the period has 10 s");
    assert_eq!(list.durations().map(|all| all.iter().sum()), Some(Duration::from_secs(10)));
    let shifted = segments(&format!(
        r#"<SegmentList timescale="10" presentationTimeOffset="25"><SegmentTimeline><S t="0" d="20" r="3"/>
           </SegmentTimeline>{}{}{}{}</SegmentList>"#,
        url("a"),
        url("b"),
        url("c"),
        url("d")
    ));
    assert_eq!(
        (spans(&shifted), urls(&shifted)),
        (vec![(0, 1500), (1500, 2000), (3500, 2000)], vec!["b".to_owned(), "c".to_owned(), "d".to_owned()])
    );
    assert_eq!(spans(&segments(&format!("<SegmentList>{}</SegmentList>", url("whole")))), [(0, 10_000)]);
    let error = refusal(&format!("<SegmentList>{}{}</SegmentList>", url("a"), url("b")));
    assert_eq!(error, "<SegmentList> has no duration or SegmentTimeline");
}

#[test]
fn only_the_rounding_at_the_end_of_a_template_may_be_missing() {
    let of = |total: &str, attributes: &str| {
        let text = format!(
            r#"<MPD mediaPresentationDuration="{total}"><Period><AdaptationSet contentType="video"><Representation
               id="1" bandwidth="1"><SegmentTemplate media="$Number$" {attributes}/></Representation>
               </AdaptationSet></Period></MPD>"#
        );
        first(&Mpd::read(text.as_bytes(), URL).expect("valid")).addressing.clone()
    };
    let rounded = of("PT12.02S", r#"duration="4""#);
    assert_eq!(spans(&rounded).last(), Some(&(12_000, 20)));
    assert_eq!(
        (0..5).map(|at| rounded.may_be_missing(at)).collect::<Vec<_>>(),
        [false, false, false, true, false]
    );
    assert!(!of("PT14S", r#"duration="4""#).may_be_missing(3), "half a segment is no rounding");
    assert!(!of("PT12S", r#"duration="4""#).may_be_missing(2), "a whole one");
    assert!(of("PT20.9S", r#"duration="20""#).may_be_missing(1), "a twentieth");
    assert!(!of("PT0.2S", r#"duration="2" timescale="10""#).may_be_missing(0), "the only one");
    assert!(!of("PT1S", r#"duration="1" timescale="10""#).may_be_missing(9), "short segments");
    let ended = of("PT12.02S", r#"duration="4" endNumber="3""#);
    assert_eq!((spans(&ended).len(), ended.may_be_missing(2)), (3, false));
}

#[test]
fn a_template_ends_with_its_last_number() {
    let template = |attributes: &str, inside: &str| {
        segments(&format!(r#"<SegmentTemplate media="$Number$" {attributes}>{inside}</SegmentTemplate>"#))
    };
    assert_eq!(urls(&template(r#"duration="2" startNumber="5" endNumber="7""#, "")), ["5", "6", "7"]);
    assert_eq!(
        urls(&template(r#"duration="4" endNumber="99""#, "")),
        ["1", "2", "3"],
        "the period is shorter"
    );
    let timeline = r#"<SegmentTimeline><S d="2" r="9"/></SegmentTimeline>"#;
    assert_eq!(urls(&template(r#"endNumber="2""#, timeline)), ["1", "2"]);
    assert_eq!(spans(&template("", timeline)).len(), 5, "the rest is after the period");
    assert_eq!(spans(&template("", "")), [(0, 10_000)], "without times, one for the period");
    let error = refusal(r#"<SegmentTemplate media="$Number$" duration="1" startNumber="3" endNumber="2"/>"#);
    assert_eq!(error, r#"<SegmentTemplate>: endNumber="2" is not at least startNumber"#);
    // A live presentation of unknown length has no end but this one.
    let text = r#"<MPD><Period><AdaptationSet contentType="video"><Representation id="1" bandwidth="1"><SegmentTemplate
        media="$Number$" duration="2" endNumber="4"/></Representation></AdaptationSet></Period></MPD>"#;
    let mpd = Mpd::read(text.as_bytes(), URL).expect("valid");
    assert_eq!(first(&mpd).addressing.segments(), Some(4));
}

#[test]
fn a_timeline_is_cut_at_both_ends_of_its_period() {
    let cut = segments(
        r#"<SegmentTemplate media="$Number$-$Time$" timescale="1000" presentationTimeOffset="5000"><SegmentTimeline>
            <S t="0" d="2000" r="8"/></SegmentTimeline></SegmentTemplate>"#,
    );
    assert_eq!(urls(&cut), ["3-4000", "4-6000", "5-8000", "6-10000", "7-12000", "8-14000"]);
    assert_eq!(spans(&cut)[0], (0, 1000));
    assert_eq!(spans(&cut)[5], (9000, 1000));
    let rounded = segments(
        r#"<SegmentTemplate media="$Number$" timescale="90000"><SegmentTimeline><S d="449995" r="2"/></SegmentTimeline>
           </SegmentTemplate>"#,
    );
    assert_eq!(spans(&rounded).len(), 2, "the third would last a ninth of a millisecond");
}

/// The main video of a period with these sets.
fn chosen(sets: &str) -> Result<String, String> {
    let mpd = mpd(&format!("<Period>{sets}</Period>")).unwrap_or_else(|error| panic!("{sets}: {error}"));
    mpd.periods[0].video().map(|set| set.representations[0].id.clone())
}

#[test]
fn sets_that_are_not_the_main_content_are_left_out() {
    let set = |attributes: &str, inside: &str, ids: &[&str]| {
        let all =
            ids.iter().map(|id| format!(r#"<Representation id="{id}" bandwidth="9"/>"#)).collect::<String>();
        format!("<AdaptationSet {attributes}>{inside}{all}</AdaptationSet>")
    };
    let role = |value: &str| format!(r#"<Role schemeIdUri="urn:mpeg:dash:role:2011" value="{value}"/>"#);
    let property = |kind: &str, scheme: &str| format!(r#"<{kind} schemeIdUri="{scheme}" value="1"/>"#);
    let video = r#"contentType="video""#;
    let trick = property("EssentialProperty", "http://dashif.org/guidelines/trickmode");
    let main = set(video, "", &["film"]);
    for other in [
        set(video, &trick, &["trick-1", "trick-2"]),
        set(video, &property("SupplementalProperty", "http://dashif.org/guidelines/trickmode"), &["a", "b"]),
        set(video, &property("EssentialProperty", "urn:example:unknown"), &["a", "b"]),
        set(video, &role("sign"), &["a", "b"]),
        set(video, &role("alternate"), &["a", "b"]),
        set(r#"contentType="image" mimeType="image/jpeg""#, "", &["thumbnails", "b"]),
        set(r#"mimeType="audio/mp4""#, "", &["a", "b"]),
        set(r#"contentType="text""#, "", &["a", "b"]),
        set(r#"mimeType="application/mp4" codecs="stpp""#, "", &["a", "b"]),
        set(r#"codecs="mp4a.40.2""#, "", &["a", "b"]),
    ] {
        assert_eq!(chosen(&format!("{other}{main}")).as_deref(), Ok("film"), "{other}");
        assert_eq!(chosen(&format!("{main}{other}")).as_deref(), Ok("film"), "{other}");
    }
    let marked = set(video, &role("main"), &["main"]);
    assert_eq!(chosen(&format!("{}{marked}", set(video, "", &["a", "b"]))).as_deref(), Ok("main"));
    let priority = set(r#"contentType="video" selectionPriority="5""#, "", &["preferred"]);
    assert_eq!(chosen(&format!("{}{priority}", set(video, "", &["a", "b"]))).as_deref(), Ok("preferred"));
    let colours =
        set(video, &property("EssentialProperty", "urn:mpeg:mpegB:cicp:ColourPrimaries"), &["colours"]);
    assert_eq!(chosen(&colours).as_deref(), Ok("colours"));
    assert_eq!(chosen(&set(r#"codecs="avc1.42c015""#, "", &["by-codec"])).as_deref(), Ok("by-codec"));
    assert_eq!(chosen(&set(video, &role("alternate"), &["only"])).as_deref(), Ok("only"));
    let layered = r#"<AdaptationSet contentType="video"><Representation id="base" bandwidth="9"/><Representation
        id="more" bandwidth="99" dependencyId="base"/></AdaptationSet>"#;
    let read = mpd(&format!("<Period>{layered}</Period>")).expect("valid");
    assert_eq!(read.periods[0].video().map(|set| set.representations.len()), Ok(1));
    let why = chosen(&format!("{}{}", set(video, &trick, &["a"]), set(r#"contentType="audio""#, "", &["b"])));
    assert_eq!(
        why.unwrap_err(),
        "an AdaptationSet of video is left out: it is for trick play; an AdaptationSet is audio"
    );
}

#[test]
fn unusual_values_matter_only_in_the_video() {
    let film =
        r#"<AdaptationSet contentType="video"><Representation id="film" bandwidth="9"/></AdaptationSet>"#;
    for other in [
        r#"<AdaptationSet contentType="text" mimeType="text/vtt"><Representation id="s" bandwidth="0"/></AdaptationSet>"#,
        r#"<AdaptationSet contentType="text"><Representation id="s"/></AdaptationSet>"#,
        r#"<AdaptationSet mimeType="audio/mp4"><Representation bandwidth="x"><SegmentTemplate media="$Time$"
            presentationTimeOffset="-130000" duration="4"/></Representation></AdaptationSet>"#,
        r#"<AdaptationSet contentType="audio" xlink:href="elsewhere"/>"#,
        r#"<AdaptationSet contentType="video"><EssentialProperty schemeIdUri="http://dashif.org/guidelines/trickmode"/>
            <Representation id="t" bandwidth="9"><SegmentTemplate media="$SubNumber$" duration="1"/></Representation>
            </AdaptationSet>"#,
    ] {
        assert_eq!(chosen(&format!("{other}{film}")).as_deref(), Ok("film"), "{other}");
    }
    let alone = mpd(
        r#"<Period><AdaptationSet contentType="video"><Representation id="a"/></AdaptationSet></Period>"#,
    );
    assert_eq!(first(&alone.expect("there is nothing to choose")).bandwidth, 0);
    let several = r#"<Period><AdaptationSet contentType="video"><Representation id="a" bandwidth="5"/>
        <Representation id="b" bandwidth="0"/></AdaptationSet></Period>"#;
    let error = mpd(several).expect_err("a player must choose").to_string();
    assert!(error.starts_with("<Representation> has no bandwidth above zero"), "{error}");
    let whole = segments(r#"<SegmentTemplate media="$Number$" duration="4.0" timescale="1.00"/>"#);
    assert_eq!(whole.segments(), Some(3));
    assert!(
        refusal(r#"<SegmentTemplate media="$SubNumber$" duration="4"/>"#)
            .contains("$Number$ and $Time$ only")
    );
    assert!(refusal(r#"<SegmentTemplate media="$Number$" duration="4.5"/>"#).contains("duration=\"4.5\""));
    let text = r#"<MPD mediaPresentationDuration="PT4S" minBufferTime="soon"><Period/></MPD>"#;
    assert!(Mpd::read(text.as_bytes(), URL).is_ok(), "a hint that is not used");
}

#[test]
fn periods_end_where_the_next_one_starts() {
    let one = r#"<AdaptationSet contentType="video"><Representation id="a" bandwidth="1"/></AdaptationSet>"#;
    let mpd = mpd(&format!(
        r#"<Period duration="PT5S">{one}</Period><Period start="PT3S">{one}</Period><Period
           xmlns:xlink="x" xlink:href="urn:mpeg:dash:resolve-to-zero:2013">{one}</Period>"#
    ))
    .expect("valid");
    let times: Vec<_> =
        mpd.periods.iter().map(|p| (p.start.as_secs(), p.duration.map(|d| d.as_secs()))).collect();
    assert_eq!(times, [(0, Some(3)), (3, Some(7))]);
}

#[test]
fn a_file_initialises_itself_and_plays_only_its_period() {
    let base = segments(
        r#"<BaseURL>https://cdn.example.org/v.mp4</BaseURL><BaseURL>v.mp4</BaseURL><SegmentBase indexRange="800-899"
            timescale="1000" presentationTimeOffset="2500"/>"#,
    );
    let Addressing::Base { url, initialization, offset, period, .. } = base else { panic!("{base:?}") };
    assert_eq!(url, "https://example.com/title/v.mp4", "on the manifest's server");
    assert_eq!(initialization, Some(ByteRange { first: 0, last: Some(799) }));
    assert_eq!((offset, period), (Some(Duration::from_millis(2500)), Some(Duration::from_secs(10))));
    let second = |n| Duration::from_secs(n);
    let span = Span { start: second(2), duration: second(2) };
    let shifted = |offset| span.shifted(second(1), second(offset), Some(second(3)));
    assert_eq!(shifted(0), None, "it starts at the end of the period");
    assert_eq!(shifted(1), Some(Span { start: second(2), duration: second(1) }));
    assert_eq!(shifted(4), Some(Span { start: second(0), duration: second(1) }));
    assert_eq!(shifted(5), None, "before the period");
}

#[test]
fn a_manifest_may_have_any_unicode_encoding() {
    let text = r#"<?xml version="1.0"?><MPD mediaPresentationDuration="PT4S"><Period><AdaptationSet contentType="video">
        <Representation id="größe" bandwidth="9"/></AdaptationSet></Period></MPD>"#;
    let expected = Mpd::read(text.as_bytes(), URL).expect("UTF-8");
    let marked = format!("\u{feff}{text}");
    let utf_16 =
        |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    for bytes in [
        marked.clone().into_bytes(),
        utf_16(&marked, u16::to_le_bytes),
        utf_16(&marked, u16::to_be_bytes),
        utf_16(text, u16::to_le_bytes),
        utf_16(text, u16::to_be_bytes),
    ] {
        assert_eq!(Mpd::read(&bytes, URL), Ok(expected.clone()));
    }
    let latin = Mpd::read(b"<MPD>\n\xe9</MPD>", URL).expect_err("Latin-1").to_string();
    assert!(latin.contains("line 2") && latin.contains("save the file as UTF-8"), "{latin}");
}
