//! ffmpeg sends a video by SRT and by RTMP to another ffmpeg, which decodes it: the pictures are those that were encoded.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tributary_emu::Side;

use crate::far_side::{WEB, said};
use crate::running::succeeds;
use crate::world::{Way, World, output_of};

const RATE: usize = 25;
/// Pictures of the video, and those that the receiver of SRT waits for: when a sender leaves, what its receiver has not played yet
/// is lost.
const PICTURES: usize = 12 * RATE;
const PICTURES_OF_SRT: usize = 9 * RATE;
/// SRT's latency, microseconds: long enough for every repair.
const LATENCY: u32 = 2_000_000;
const EACH: u64 = 150_000;

fn ffmpeg(command: &mut Command) -> &mut Command {
    command.args(["-v", "error", "-nostdin", "-y"]).stdin(Stdio::null())
}

/// Hashes of the decoded pictures in a file of ffmpeg's `framemd5`.
fn hashes(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.rsplit(',').next()).map(|word| word.trim().to_owned()).collect()
}

/// Starts a receiver at the server's side; it writes the hashes of its pictures.
fn receiver(world: &World, input: &[&str], name: &str) -> Child {
    let mut command = world.network.command(Side::Server, "ffmpeg");
    ffmpeg(&mut command).args(input).args(["-map", "0:v", "-fps_mode", "passthrough"]);
    command.args(["-frames:v", &PICTURES.to_string()]);
    if name == "srt" {
        command.args(["-frames:v", &PICTURES_OF_SRT.to_string()]);
    }
    command.args(["-f", "framemd5"]).arg(world.at(name)).spawn().expect("it starts")
}

pub fn srt_and_rtmp_lose_no_picture(world: &World) {
    let source = world.at("source.mkv");
    let picture = format!("testsrc2=s=320x180:r={RATE}:d={}", PICTURES / RATE);
    succeeds(
        ffmpeg(&mut Command::new("ffmpeg"))
            .args(["-f", "lavfi", "-i", &picture, "-c:v", "libx264", "-preset", "ultrafast", "-g", "25"])
            .args(["-b:v", "700k", "-maxrate", "700k", "-bufsize", "350k"])
            .arg(&source),
    );
    let decode = ["-map", "0:v", "-fps_mode", "passthrough", "-f", "framemd5"];
    succeeds(ffmpeg(&mut Command::new("ffmpeg")).arg("-i").arg(&source).args(decode).arg(world.at("wanted")));
    let wanted = hashes(&world.at("wanted"));
    assert_eq!(wanted.len(), PICTURES);
    for way in [Way::Tunnel, Way::Exec] {
        let carrier = world.carry(way);
        let srt = format!("srt://{WEB}:9000?latency={LATENCY}&mode=");
        let rtmp = format!("rtmp://{WEB}:1935/live/one");
        let by_srt = receiver(world, &["-i", &format!("{srt}listener")], "srt");
        let by_rtmp = receiver(world, &["-listen", "1", "-i", &rtmp], "rtmp");
        world.listens("udp", 9000);
        world.listens("tcp", 1935);
        let send = |format: &str, to: &str| {
            let mut command = carrier.command("ffmpeg");
            ffmpeg(&mut command).arg("-re").arg("-i").arg(&source).args(["-c", "copy", "-f", format, to]);
            command.spawn().expect("it starts")
        };
        let mut srt_sender = send("mpegts", &format!("{srt}caller"));
        let rtmp_sender = send("flv", &rtmp);
        world.troubles(|what| world.carried(EACH, what, &mut srt_sender));
        said(&output_of(rtmp_sender), 0);
        for (received, count, name) in [(by_srt, PICTURES_OF_SRT, "srt"), (by_rtmp, PICTURES, "rtmp")] {
            said(&output_of(received), 0);
            let got = hashes(&world.at(name));
            let same = got.iter().zip(&wanted).take_while(|(got, wanted)| got == wanted).count();
            assert_eq!(
                (got.len(), same),
                (count, count),
                "{way:?}, {name}: pictures, and the first that are equal"
            );
        }
        // Its receiver has left before the end.
        output_of(srt_sender);
        carrier.end();
    }
}
