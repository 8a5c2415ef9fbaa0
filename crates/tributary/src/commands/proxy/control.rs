//! What the control socket of `serve`, `connect` and `tunnel` can change, and what a settings file can that is read again.

use super::{Serving, connect_config, priorities};
use crate::cli::{ConnectArguments, ServeArguments};
use crate::service::reload::Apply;
use crate::service::rpc::{Fault, Methods};
use anyhow::{Result, anyhow};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tributary_net::PathConfig;
use tributary_net::proxy::{ForwardControl, PriorityRule, PriorityRules, ServeRules, ServerControl};

/// Settings of `serve` that are replaced while it runs.
pub(super) const SERVE: &[&str] = &["forward", "udp", "allow", "priority", "memory"];
/// Settings of a client that are replaced while it runs.
pub(crate) const CLIENT: &[&str] = &["path", "server", "priority"];

/// Carries out the settings of a file for a running server.
pub(super) fn apply_serve(control: ServerControl) -> Apply<ServeArguments> {
    Box::new(move |arguments| {
        let Serving { config, .. } = Serving::new(arguments)?;
        control.replace_rules(config.rules())?;
        control.set_memory(config.listen.limits.memory);
        Ok(())
    })
}

/// Carries out the settings of a file for a running client.
pub(super) fn apply_connect(control: ForwardControl) -> Apply<ConnectArguments> {
    Box::new(move |arguments| {
        let config = connect_config(arguments)?;
        control.replace_priorities(priorities(&arguments.session)?)?;
        // The paths were checked with the rest.
        control.replace_paths(config.connect.paths)?;
        Ok(())
    })
}

impl Methods for ServeMethods {
    fn call(&self, method: &str, params: &Value) -> Option<Result<Value, Fault>> {
        let Self(control) = self;
        match method {
            "set_priority" => Some(carry_out(params, |Rules { rules }| {
                let rules = ServeRules { priorities: parse_rules(&rules)?, ..control.rules() };
                Ok(control.replace_rules(rules)?)
            })),
            _ => None,
        }
    }
}

/// Methods of a server.
pub(super) struct ServeMethods(pub(super) ServerControl);

/// Methods of a client.
pub(super) struct ClientMethods {
    pub(super) control: ForwardControl,
    /// `--server`: that of paths that name none.
    pub(super) server: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rules: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Path {
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metered {
    path: String,
    metered: bool,
}

/// With `cap_mbps` left out or null the path has no cap.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cap {
    path: String,
    cap_mbps: Option<f64>,
}

impl Methods for ClientMethods {
    fn call(&self, method: &str, params: &Value) -> Option<Result<Value, Fault>> {
        Some(match method {
            "add_path" => carry_out(params, |Path { path }| self.add(&path)),
            "remove_path" => carry_out(params, |Path { path }| self.remove(&path)),
            "set_metered" => carry_out(params, |Metered { path, metered }| self.set_metered(&path, metered)),
            "set_cap" => carry_out(params, |Cap { path, cap_mbps }| self.set_cap(&path, cap_mbps)),
            "set_priority" => carry_out(params, |Rules { rules }| {
                Ok(self.control.replace_priorities(parse_rules(&rules)?)?)
            }),
            _ => return None,
        })
    }
}

impl ClientMethods {
    fn add(&self, path: &str) -> Result<()> {
        let mut paths = self.control.paths();
        let server = self.server.clone().or_else(|| Some(paths.first()?.server.to_string()));
        let path = PathConfig::parse(path, server.as_deref())?;
        tracing::info!("path {path} is configured");
        paths.push(path);
        Ok(self.control.replace_paths(paths)?)
    }

    fn remove(&self, path: &str) -> Result<()> {
        let mut paths = self.control.paths();
        let removed = paths.remove(find(&paths, path)?);
        self.control.replace_paths(paths)?;
        tracing::info!("path {removed} is configured no longer");
        Ok(())
    }

    fn set_metered(&self, path: &str, metered: bool) -> Result<()> {
        let mut paths = self.control.paths();
        let at = find(&paths, path)?;
        paths[at].metered = metered;
        tracing::info!("path {} is {}", paths[at], if metered { "metered" } else { "not metered" });
        Ok(self.control.replace_paths(paths)?)
    }

    fn set_cap(&self, path: &str, mbps: Option<f64>) -> Result<()> {
        let mut paths = self.control.paths();
        let at = find(&paths, path)?;
        let name = paths[at].name();
        paths[at].cap = mbps.map(|mbps| PathConfig::read_cap(&mbps.to_string(), &name)).transpose()?;
        match mbps {
            Some(mbps) => tracing::info!("path {name} carries at most {mbps} Mbit/s"),
            None => tracing::info!("path {name} has no cap"),
        }
        Ok(self.control.replace_paths(paths)?)
    }
}

/// The configured path with this local end, or with this whole name.
fn find(paths: &[PathConfig], name: &str) -> Result<usize> {
    let is_it =
        |path: &PathConfig| path.local_name() == name || path.name() == name || path.to_string() == name;
    paths.iter().position(is_it).ok_or_else(|| {
        let all = paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        anyhow!("`{name}` is no configured path; there are {all}")
    })
}

fn parse_rules(rules: &[String]) -> Result<PriorityRules> {
    let rules = rules.iter().map(|rule| rule.parse::<PriorityRule>());
    Ok(rules.collect::<Result<_, _>>()?)
}

/// Does what a request with these parameters asks for.
fn carry_out<P: DeserializeOwned>(
    params: &Value,
    work: impl FnOnce(P) -> Result<()>,
) -> Result<Value, Fault> {
    let params = P::deserialize(params).map_err(|error| Fault::params(error.to_string()))?;
    work(params).map(|()| Value::Null).map_err(|error| Fault::refused(&error))
}
