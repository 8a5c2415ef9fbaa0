//! `scripts/setup` on machines with missing tools, with a made-up search path and a made-up `apt-get`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Tools of a bare Debian that the script uses.
const BARE: &[&str] = &["bash", "env", "cksum", "mkdir", "dirname", "cat"];
/// Tools that the script requires in addition, except ffmpeg.
const WANTED: &[&str] = &["cc", "ar", "ffprobe", "ip", "git", "nft", "curl", "python3", "setpriv"];

struct Machine {
    folder: PathBuf,
}

impl Machine {
    /// A machine without ffmpeg; `user` is the output of `id -u`.
    fn without_ffmpeg(name: &str, user: u32) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("setup-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).expect("a writable target folder");
        let machine = Self { folder };
        for tool in BARE {
            let real = ["/usr/bin", "/bin"].map(|bin| Path::new(bin).join(tool));
            let real = real.iter().find(|path| path.exists()).expect("a bare tool is there");
            symlink(real, machine.bin(tool)).expect("a writable target folder");
        }
        for tool in WANTED.iter().chain(&["cargo"]) {
            machine.script(tool, "exit 0");
        }
        machine.script("id", &format!("echo {user}"));
        machine
    }

    fn bin(&self, tool: &str) -> PathBuf {
        self.folder.join("bin").join(tool)
    }

    fn script(&self, tool: &str, body: &str) {
        let path = self.bin(tool);
        fs::write(&path, format!("#!/bin/bash\n{body}\n")).expect("a writable target folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("own file");
    }

    /// An `apt-get` that records its arguments and "installs" ffmpeg.
    fn with_apt(self) -> Self {
        let (log, ffmpeg) = (self.folder.join("apt.log"), self.bin("ffmpeg"));
        let install = format!(
            "[[ $* == *install* ]] && echo '#!/bin/bash' >{0} && /bin/chmod +x {0}",
            ffmpeg.display()
        );
        self.script("apt-get", &format!("echo \"$*\" >>{}\n{install}\nexit 0", log.display()));
        self
    }

    fn apt_calls(&self) -> usize {
        fs::read_to_string(self.folder.join("apt.log")).map_or(0, |log| log.lines().count())
    }

    fn set_up(&self) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/setup");
        Command::new(script)
            .env_clear()
            .env("PATH", self.folder.join("bin"))
            .env("HOME", &self.folder)
            .env("SETUP_STAMP", self.folder.join("stamp"))
            .output()
            .expect("the script starts")
    }
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

#[test]
fn the_first_run_installs_what_is_absent_and_the_second_nothing() {
    let machine = Machine::without_ffmpeg("root", 0).with_apt();
    let first = machine.set_up();
    assert!(first.status.success(), "{}", text(&first));
    let log = fs::read_to_string(machine.folder.join("apt.log")).expect("apt-get ran");
    assert!(log.trim_end().ends_with("--no-install-recommends ffmpeg"), "{log}");
    let calls = machine.apt_calls();
    let second = machine.set_up();
    assert!(second.status.success() && text(&second).is_empty(), "{}", text(&second));
    assert_eq!(machine.apt_calls(), calls);
}

#[test]
fn a_removed_tool_is_installed_again() {
    let machine = Machine::without_ffmpeg("vanished", 0).with_apt();
    assert!(machine.set_up().status.success());
    let calls = machine.apt_calls();
    fs::remove_file(machine.bin("ffmpeg")).expect("it was installed");
    assert!(machine.set_up().status.success());
    assert!(machine.apt_calls() > calls && machine.bin("ffmpeg").exists());
}

#[test]
fn without_permission_the_message_names_package_and_command() {
    let machine = Machine::without_ffmpeg("user", 1000).with_apt();
    let output = machine.set_up();
    assert!(!output.status.success());
    let message = text(&output);
    assert!(message.contains("apt-get install --no-install-recommends ffmpeg"), "{message}");
    assert_eq!(machine.apt_calls(), 0);
    assert!(!machine.folder.join("stamp").exists());
}

#[test]
fn elsewhere_than_debian_the_message_names_the_package() {
    let output = Machine::without_ffmpeg("foreign", 0).set_up();
    assert!(!output.status.success());
    assert!(text(&output).contains("absent: ffmpeg"), "{}", text(&output));
}

#[test]
fn without_a_rust_toolchain_the_message_says_where_to_get_one() {
    let machine = Machine::without_ffmpeg("no-rust", 0).with_apt();
    fs::remove_file(machine.bin("cargo")).expect("it was made");
    let output = machine.set_up();
    assert!(!output.status.success());
    assert!(text(&output).contains("Rust toolchain"), "{}", text(&output));
}
