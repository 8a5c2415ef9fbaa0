//! `tributary ctl`: one request to a running program.

use crate::cli::{CtlArguments, Order, Switch};
use crate::service::sockets;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::process::ExitCode;
use tributary_cli::output;

pub(super) fn run(arguments: &CtlArguments) -> Result<ExitCode> {
    let (method, params, roles) = request(&arguments.order);
    let is_meant = |program: &Value| match arguments.pid {
        Some(pid) => program["pid"] == pid,
        None => roles.is_empty() || roles.iter().any(|role| program["role"] == *role),
    };
    let mut meant: Vec<_> =
        sockets::programs().into_iter().filter(|(program, _)| is_meant(program)).collect();
    let Some((program, mut connection)) = meant.pop() else {
        match arguments.pid {
            Some(pid) => bail!("no program of this user with the process number {pid} answers"),
            None if roles.is_empty() => bail!("no long-running `tributary` program of this user is running"),
            None => bail!("no `tributary {}` of this user is running", roles.join("` or `tributary ")),
        }
    };
    let name = |program: &Value| format!("{} ({})", program["role"].as_str().unwrap_or("-"), program["pid"]);
    if !meant.is_empty() {
        let all = meant.iter().map(|(program, _)| name(program)).chain([name(&program)]);
        bail!("several programs are running: {}; choose one by --pid", all.collect::<Vec<_>>().join(", "));
    }
    let result = connection.call(method, &params)?;
    if arguments.json {
        let answer = json!({ "role": program["role"], "pid": program["pid"], "result": result });
        output::line(&answer.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let keys = |name: &str| {
        let keys = result[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        Some(keys.collect::<Vec<_>>().join(", ")).filter(|keys| !keys.is_empty())
    };
    let done = match arguments.order {
        Order::Reload => {
            let changed = keys("changed").unwrap_or_else(|| "nothing".to_owned());
            let restart = keys("needs_restart").map(|keys| format!("; needs a restart: {keys}"));
            format!("changed: {changed}{}", restart.unwrap_or_default())
        }
        _ => "done".to_owned(),
    };
    output::line(&format!("{}: {done}", name(&program)))?;
    Ok(ExitCode::SUCCESS)
}

/// Programs whose paths can be changed.
const CLIENTS: &[&str] = &["connect", "tunnel"];

/// Method, parameters, and the programs that have it; none: all.
fn request(order: &Order) -> (&'static str, Value, &'static [&'static str]) {
    match order {
        Order::AddPath { path } => ("add_path", json!({ "path": path }), CLIENTS),
        Order::RemovePath { path } => ("remove_path", json!({ "path": path }), CLIENTS),
        Order::Metered { path, metered } => {
            let metered = *metered == Switch::On;
            ("set_metered", json!({ "path": path, "metered": metered }), CLIENTS)
        }
        Order::Cap { path, mbps } => ("set_cap", json!({ "path": path, "cap_mbps": mbps.0 }), CLIENTS),
        Order::Priority { rules } => {
            ("set_priority", json!({ "rules": rules }), &["connect", "tunnel", "serve"])
        }
        Order::Reload => ("reload", Value::Null, &[]),
        Order::Drain => ("drain", Value::Null, &[]),
    }
}
