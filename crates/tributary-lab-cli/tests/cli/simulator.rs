//! `run --world sim` and `sweep` on the command line. Needs neither namespaces nor root.

use super::output;
use tempfile::TempDir;
use tributary_testing::text;

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = output(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Asserts exit code 1 and nothing but one line on standard error, which contains all of `parts`.
fn refused(arguments: &[&str], parts: &[&str]) {
    let output = output(arguments);
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
    super::refused(&output, 1, parts);
}

const NETWORK: &str = "name = \"own\"\nduration = \"2 s\"\n[[path]]\nname = \"wifi\"\ndown.rate = \"8 Mbit/s\"\n\
                       [[path]]\nname = \"lte\"\ndown.rate = \"4 Mbit/s\"\n";

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed: &str| {
        json(&[
            "run",
            "onoff",
            "--world",
            "sim",
            "--transport",
            "fbdt",
            "--seconds",
            "3",
            "--seed",
            seed,
            "--json",
        ])
    };
    let (one, two, other) = (run("5"), run("5"), run("6"));
    assert_eq!(one, two);
    assert_ne!(one["virtual"]["hash"], other["virtual"]["hash"]);
    assert_eq!((one["world"].as_str(), one["seed"].as_u64()), (Some("sim"), Some(5)));
    assert!(one["goodput"]["mean_mbps"].as_f64().unwrap() > 100.0);
    assert_eq!(one["goodput"]["per_second_mbps"].as_array().unwrap().len(), 3);
}

#[test]
fn scenario_by_place_by_option_and_with_its_own_run_table() {
    let words = String::from_utf8(
        output(&["run", "--scenario", "los", "--world", "sim", "--transport", "wifi", "--seconds", "2"])
            .stdout,
    )
    .unwrap();
    assert!(words.contains("wifi · los · bulk · cubic") && words.contains("event log"), "{words}");
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("own.toml");
    let run = "[run]\ntransport = \"mptcp\"\nscheduler = \"ecf\"\nworkload = { kind = \"burst\", size = \"20 kB\", every = \"100 ms\" }\n";
    std::fs::write(&file, format!("{NETWORK}{run}")).unwrap();
    let result = json(&["run", text(&file), "--world", "sim", "--json"]);
    assert_eq!(result["transport"], "mptcp/ecf");
    assert_eq!(result["virtual"]["seconds"], 2.0);
    assert_eq!(result["flows"][0]["kind"], "burst");
    assert!(result["flows"][0]["took_ms"]["p50"].as_f64().unwrap() > 1.0);
    std::fs::write(&file, format!("{NETWORK}{}", run.replace("ecf", "eff"))).unwrap();
    refused(&["run", text(&file), "--world", "sim"], &["own.toml:11: run.scheduler", "`eff`", "ecf"]);
}

#[test]
fn captures_and_logs() {
    let directory = TempDir::new().unwrap();
    let (pcap, qlog) = (directory.path().join("run.pcap"), directory.path().join("logs"));
    let run = ["run", "los", "--world", "sim", "--transport", "mptcp", "--seconds", "2", "--json"];
    let files = ["--pcap", text(&pcap), "--qlog", text(&qlog)];
    let result = json(&[&run[..], &files].concat());
    assert_eq!(
        result["virtual"]["hash"],
        json(&run)["virtual"]["hash"],
        "writing captures does not change the run"
    );
    assert!(std::fs::metadata(&pcap).unwrap().len() > 100_000);
    assert_eq!(std::fs::read_dir(&qlog).unwrap().count(), 1);
}

#[test]
fn impossible_runs_are_refused_in_one_line() {
    let sim = |arguments: &[&'static str]| [&["run", "los", "--world", "sim"], arguments].concat();
    refused(&sim(&["--transport", "fdbt"]), &["`fdbt`", "mpquic", "fbdt-paper"]);
    refused(&sim(&["--transport", "mptcp", "--scheduler", "best"]), &["`best`", "blest"]);
    refused(&sim(&["--congestion", "vegas9"]), &["`vegas9`", "cubic"]);
    for transport in ["fbdt", "mpquic", "wifi"] {
        refused(&sim(&["--transport", transport, "--scheduler", "blest"]), &["--scheduler blest", transport]);
    }
    refused(&sim(&["--transport", "mptcp", "--window", "65536"]), &["window", "`mptcp`"]);
    refused(&sim(&["--size", "1000"]), &["--size", "--workload object"]);
    refused(&sim(&["--start-up", "500"]), &["--start-up", "--workload live"]);
    for wrong in [["--count", "0"], ["--size", "0"], ["--queue-kb", "18446744073709653"]] {
        assert_eq!(output(&sim(&wrong)).status.code(), Some(2), "{wrong:?}");
    }
    refused(
        &["run", "los", "--transport", "mptcp", "--scheduler", "blest"],
        &["--scheduler blest", "session"],
    );
    refused(&sim(&["--plaintext"]), &["--plaintext", "--world emu"]);
    refused(&sim(&["--workload", "live"]), &["--world emu"]);
    refused(&sim(&["--budget", "1000"]), &["1000 events", "busiest", "raise the event budget"]);
    refused(&sim(&["--pcap", "/nowhere/run.pcap"]), &["/nowhere/run.pcap"]);
    refused(&["run", "mars", "--world", "sim"], &["`mars`", "blackout"]);
    refused(&["run", "los", "--pcap", "run.pcap"], &["--pcap", "--world sim"]);
    refused(&["run", "los", "--qlog", "logs"], &["--qlog", "--world sim"]);
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("own.toml");
    std::fs::write(&file, NETWORK.replace("8 Mbit/s", "0 Mbit/s")).unwrap();
    refused(&["run", text(&file), "--world", "sim"], &["own.toml:5", "rate"]);
}

fn plan(directory: &TempDir, text: &str) -> String {
    std::fs::write(directory.path().join("own.toml"), NETWORK).unwrap();
    let file = directory.path().join("plan.toml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

const PLAN: &str = "name = \"little\"\nworld = \"sim\"\n[[matrix]]\nworld = \"sim\"\n\
                    scenarios = [\"own.toml\"]\ntransports = [\"wifi\", \"mptcp\", \"fbdt\"]\n\
                    congestion = [\"cubic\", \"reno\"]\nseeds = [\"1-2\"]\nheld-back = [9]\nseconds = 2\n";

#[test]
fn a_sweep_writes_its_tables_and_resumes() {
    let directory = TempDir::new().unwrap();
    let (plan, out) = (plan(&directory, PLAN), directory.path().join("out"));
    let sweep = |more: &[&str]| json(&[&["sweep", &plan, "--out", text(&out), "--json"], more].concat());
    let first = sweep(&[]);
    assert_eq!((first["planned"].as_u64(), first["finished"].as_u64()), (Some(12), Some(12)));
    assert_eq!(first["groups"].as_array().unwrap().len(), 6);
    assert!(first["groups"][0]["metrics"]["goodput"]["mean"].as_f64().unwrap() > 1.0);
    let csv = std::fs::read_to_string(out.join("sweep.csv")).unwrap();
    assert!(
        csv.starts_with("scenario,transport,scheduler,congestion,rtt,queue,loss,metric,seeds,mean,low,high")
    );
    assert_eq!(std::fs::read_to_string(out.join("runs.csv")).unwrap().lines().count(), 13);
    for name in ["runs.parquet", "sweep.parquet"] {
        assert_eq!(&std::fs::read(out.join(name)).unwrap()[..4], b"PAR1");
    }
    let again = sweep(&[]);
    assert_eq!((again["shard"]["before"].as_u64(), again["shard"]["now"].as_u64()), (Some(12), Some(0)));
    assert_eq!(again["groups"], first["groups"]);
    let held = sweep(&["--held-back", "--shoot-out"]);
    assert_eq!(held["planned"], 6);
    assert!(std::fs::read_to_string(out.join("shoot-out.html")).unwrap().contains("fbdt"));
}

#[test]
fn shards_of_several_directories_are_merged() {
    let directory = TempDir::new().unwrap();
    let plan = plan(&directory, PLAN);
    let out = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (one, two, whole) = (out("one"), out("two"), out("whole"));
    json(&["sweep", &plan, "--shard", "1/2", "--out", &one, "--json"]);
    json(&["sweep", &plan, "--shard", "2/2", "--out", &two, "--json"]);
    let merged = json(&["sweep", &plan, "--out", &whole, "--merge", &one, &two, "--json"]);
    assert_eq!((merged["finished"].as_u64(), merged["shard"]["now"].as_u64()), (Some(12), Some(0)));
}

#[test]
fn bad_plans_are_refused_in_one_line() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("out");
    let with = |from: &str, to: &str, parts: &[&str]| {
        let plan = plan(&directory, &PLAN.replace(from, to));
        refused(&["sweep", &plan, "--out", text(&out)], parts);
    };
    with(
        "\"1-2\"",
        "\"10-900009\"",
        &["little", "2 congestion", "900000 seeds", "= 5400000 runs", "--limit"],
    );
    with("fbdt", "fdbt", &["own.toml", "`fdbt`"]);
    with("seconds", "minutes", &["plan.toml:10", "minutes", "seconds"]);
    with("own.toml", "no.toml", &["no.toml"]);
    with("\"1-2\"", "\"2-1\"", &["plan.toml:8", "`2-1`", "1-20"]);
    refused(&["sweep", "/nowhere.toml"], &["/nowhere.toml"]);
    let output = output(&["sweep", "plan.toml", "--shard", "3/2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("1/4"));
}

#[test]
fn help_has_examples() {
    for command in ["run", "sweep"] {
        let help = String::from_utf8(output(&[command, "--help"]).stdout).unwrap();
        assert!(help.contains("Examples:") && help.contains("--json"), "{help}");
    }
}

#[test]
fn a_soak_counts_its_trials_and_what_they_break() {
    let soaked = json(&["soak", "--seeds", "20", "--json"]);
    assert_eq!((&soaked["trials"], &soaked["broken"]), (&20.into(), &serde_json::json!([])));
    refused(&["soak", "--trial", "none.toml"], &["cannot read none.toml"]);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/late.toml");
    assert_eq!(json(&["soak", "--trial", file, "--json"])["fault"], serde_json::Value::Null);
    refused(
        &["soak", "--world", "emu", "--trial", file],
        &["late.toml: operation 2, `reorder`", "--world sim"],
    );
    let cases = json(&["soak", "--cases", "--json"]);
    let cases = cases["cases"].as_array().unwrap();
    assert!(cases.iter().all(|case| case["took_s"].as_f64() <= case["limit_s"].as_f64()), "{cases:#?}");
    assert!(cases.len() > 3 && cases[0]["name"].is_string(), "{cases:#?}");
}

#[test]
fn what_a_sweep_costs_is_measured_and_nothing_of_it_is_kept() {
    let directory = TempDir::new().unwrap();
    let (plan, out) = (directory.path().join("plan.toml"), directory.path().join("out"));
    std::fs::write(directory.path().join("own.toml"), NETWORK).unwrap();
    let text = "name = \"p\"\nworld = \"sim\"\n[[matrix]]\nworld = \"sim\"\nscenarios = [\"own.toml\"]\n\
                transports = [\"wifi\", \"fbdt\"]\nseeds = [\"1-5000\"]\nseconds = 2\n";
    std::fs::write(&plan, text).unwrap();
    let (plan, place) = (plan.to_str().unwrap(), out.to_str().unwrap());
    let cost = json(&["sweep", plan, "--cost", "3", "--out", place, "--json"]);
    assert_eq!(
        (cost["cost"]["runs"].as_u64(), cost["cost"]["seconds"].as_array().unwrap().len()),
        (Some(10_000), 3)
    );
    assert!(cost["core_hours"].as_f64() > Some(0.0) && cost["shards"].as_u64() >= Some(1), "{cost}");
    assert!(!out.exists());
    let told = output(&["sweep", plan, "--cost", "2", "--hours", "1000"]);
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("10000 runs planned, 2 measured") && told.contains("--shard 1/1"), "{told}");
    refused(&["sweep", plan, "--world", "emu", "--cost"], &["--cost measures simulated runs"]);
}

#[test]
fn one_command_goes_through_every_paper() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().to_str().unwrap();
    // Without time for runs: each paper is planned, judged and written.
    let all = json(&["reproduce", "all", "--quick", "--minutes", "0", "--out", out, "--json"]);
    let papers = all["papers"].as_array().unwrap();
    let named: Vec<&str> = papers.iter().filter_map(|paper| paper["paper"].as_str()).collect();
    for paper in ["fbdt", "fbdt-published", "avira", "cotag", "decision-engine", "handoff", "ows"] {
        assert!(named.contains(&paper), "{named:?}");
        assert!(directory.path().join(format!("{paper}-sim.html")).exists(), "{paper}");
    }
    for paper in papers {
        assert!(paper["left_out"].as_u64() > Some(0) && paper["failed"] == 0, "{paper}");
        assert!(paper["claims"].as_u64() > Some(0), "{paper}");
    }
    assert!(
        std::fs::read_to_string(directory.path().join("all-sim.md")).unwrap().contains("| decision-engine |")
    );
}
