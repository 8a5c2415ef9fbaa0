//! `cargo xtask tests`: the workspace's test programs, those that only compute beside those that wait, and other commands beside both.
//!
//! `cargo test` runs one program after the other. Most of them wait for sockets, emulated links and real time, and leave the
//! processor to nobody. Programs whose tests run in virtual time take that processor time here, and so do the other commands, under the
//! kernel's idle policy, so that they delay no other one. The programs that measure run last and alone.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// Programs whose tests take most of the processor time and run in virtual time: package, and name of the target.
const COMPUTING: [(&str, &str); 7] = [
    ("tributary-proto", "tributary_proto"),
    ("tributary-lab", "tributary_lab"),
    ("tributary-sim", "tributary_sim"),
    ("tributary-sim", "runs"),
    ("tributary-sim", "theory"),
    ("tributary-sim", "trials"),
    ("tributary-sim", "own"),
];

/// Programs that judge an emulated network's or a recording's truth in real time.
const MEASURING: [(&str, &str); 4] = [
    ("tributary-emu", "emulator"),
    ("tributary-lab", "record"),
    ("tributary-lab", "trial"),
    ("tributary-lab", "tunnel"),
];

/// Begins an argument with a command that runs beside the programs.
const BESIDE: &str = "--beside=";

/// A test program that cargo built.
#[derive(Debug, PartialEq)]
struct Program {
    package: String,
    target: String,
    path: PathBuf,
    /// Where cargo runs it: the package's folder.
    folder: PathBuf,
    version: String,
}

impl Program {
    fn computes(&self) -> bool {
        COMPUTING.contains(&(self.package.as_str(), self.target.as_str()))
    }

    fn measures(&self) -> bool {
        MEASURING.contains(&(self.package.as_str(), self.target.as_str()))
    }

    /// Runs it to its end. True if it passed.
    fn run(&self, printing: &Mutex<()>) -> Result<bool> {
        let mut command = if self.computes() { idle(&self.path) } else { Command::new(&self.path) };
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", &self.package)
            .env("CARGO_PKG_VERSION", &self.version);
        finish(command, &self.to_string(), printing)
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.target, self.package)
    }
}

/// A command under the kernel's idle policy.
fn idle(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("chrt");
    command.args(["--idle", "0"]).arg(program);
    command
}

/// Runs a command to its end, and prints its output as a whole. True if it passed.
fn finish(mut command: Command, name: &str, printing: &Mutex<()>) -> Result<bool> {
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    let _one = printing.lock().expect("nobody panics while printing");
    println!("\n     Ran {name} in {:.1} s", began.elapsed().as_secs_f64());
    print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        println!("error: {name} ended with {}: {command:?}", output.status);
    }
    Ok(output.status.success())
}

/// Builds the test programs with these arguments of `cargo test`, and runs them. Arguments `--beside=COMMAND` are commands of a shell
/// that run beside the programs. True if all passed.
pub fn run(arguments: &[&str]) -> Result<bool> {
    let (beside, arguments): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|argument| argument.starts_with(BESIDE));
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["test", "--no-run", "--message-format=json-render-diagnostics"])
        .args(&arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !built.status.success() {
        bail!("cargo test --no-run {} failed", arguments.join(" "));
    }
    let programs = programs(&String::from_utf8(built.stdout)?)?;
    let (measuring, others): (Vec<_>, Vec<_>) = programs.into_iter().partition(Program::measures);
    let (computing, waiting): (Vec<_>, Vec<_>) = others.into_iter().partition(Program::computes);
    let printing = Mutex::new(());
    let one_by_one = |programs: Vec<Program>| -> Result<Vec<String>> {
        let mut failed = vec![];
        for program in programs {
            if !program.run(&printing)? {
                failed.push(program.to_string());
            }
        }
        Ok(failed)
    };
    let commands = || -> Result<Vec<String>> {
        let mut failed = vec![];
        for line in beside {
            let line = &line[BESIDE.len()..];
            let mut command = idle("bash");
            command.args(["-c", line]);
            if !finish(command, line, &printing)? {
                failed.push(line.to_owned());
            }
        }
        Ok(failed)
    };
    let mut failed = std::thread::scope(|scope| -> Result<Vec<String>> {
        let beside = [scope.spawn(|| one_by_one(computing)), scope.spawn(commands)];
        let mut failed = one_by_one(waiting)?;
        for running in beside {
            failed.extend(running.join().expect("running a program does not panic")?);
        }
        Ok(failed)
    })?;
    failed.extend(one_by_one(measuring)?);
    if !failed.is_empty() {
        println!("\nerror: failed: {}", failed.join(", "));
    }
    Ok(failed.is_empty())
}

/// The test programs in cargo's messages, one JSON object a line.
fn programs(messages: &str) -> Result<Vec<Program>> {
    let mut programs = vec![];
    for line in messages.lines() {
        let message: Value =
            serde_json::from_str(line).with_context(|| format!("not a message of cargo: {line}"))?;
        let (Some(path), Some(true)) = (message["executable"].as_str(), message["profile"]["test"].as_bool())
        else {
            continue;
        };
        let text = |value: &Value| {
            value.as_str().with_context(|| format!("cargo's message lacks a field: {line}")).map(String::from)
        };
        let manifest = text(&message["manifest_path"])?;
        let folder = Path::new(&manifest).parent().context("a manifest is in a folder")?;
        let (package, version) = named(&text(&message["package_id"])?, folder);
        programs.push(Program {
            package,
            version,
            target: text(&message["target"]["name"])?,
            path: path.into(),
            folder: folder.into(),
        });
    }
    Ok(programs)
}

/// Name and version from a package's identifier, `path+file:///folder/name#version` or `…#name@version`.
fn named(identifier: &str, folder: &Path) -> (String, String) {
    let after = identifier.rsplit('#').next().unwrap_or_default();
    match after.split_once('@') {
        Some((name, version)) => (name.into(), version.into()),
        None => (folder.file_name().unwrap_or_default().to_string_lossy().into_owned(), after.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_with_the_folder_to_run_them_in() {
        let messages = [
            r#"{"reason":"compiler-artifact","package_id":"path+file:///p/crates/one#0.1.0","manifest_path":"/p/crates/one/Cargo.toml","target":{"name":"one"},"profile":{"test":true},"executable":"/p/target/debug/deps/one-1"}"#,
            r#"{"reason":"compiler-artifact","package_id":"path+file:///p/tests#whole@0.2.0","manifest_path":"/p/tests/Cargo.toml","target":{"name":"net"},"profile":{"test":true},"executable":"/p/target/debug/deps/net-1"}"#,
            r#"{"reason":"compiler-artifact","package_id":"path+file:///p/crates/one#0.1.0","manifest_path":"/p/crates/one/Cargo.toml","target":{"name":"one"},"profile":{"test":false},"executable":"/p/target/debug/one"}"#,
            r#"{"reason":"build-finished","success":true}"#,
        ]
        .join("\n");
        let program = |package: &str, target: &str, path: &str, folder: &str, version: &str| Program {
            package: package.into(),
            target: target.into(),
            path: path.into(),
            folder: folder.into(),
            version: version.into(),
        };
        assert_eq!(
            programs(&messages).unwrap(),
            [
                program("one", "one", "/p/target/debug/deps/one-1", "/p/crates/one", "0.1.0"),
                program("whole", "net", "/p/target/debug/deps/net-1", "/p/tests", "0.2.0"),
            ]
        );
    }

    #[test]
    fn what_is_not_a_message_is_shown() {
        assert!(programs("Compiling one").unwrap_err().to_string().contains("Compiling one"));
    }
}
