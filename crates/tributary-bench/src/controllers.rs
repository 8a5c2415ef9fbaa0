//! The eBPF controllers of a run: loaded under names with a prefix, unloaded when dropped.

use crate::BenchError;

/// Loaded controllers.
pub(crate) struct Controllers {
    prefix: String,
    /// Without the prefix.
    names: Vec<String>,
}

impl Controllers {
    /// Loads these; all if there are none.
    pub(crate) fn load(chosen: &[String], prefix: &str) -> Result<Self, BenchError> {
        let loaded = tributary_bpf::load(chosen, prefix)?;
        Ok(Self {
            prefix: prefix.to_owned(),
            names: loaded.into_iter().map(|loaded| loaded.controller).collect(),
        })
    }

    /// Their names without the prefix.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The name by which sockets select a control: with the prefix if it is one of these.
    pub(crate) fn in_kernel(&self, control: &str) -> String {
        let ours = self.names.iter().any(|name| name == control);
        if ours { format!("{}{control}", self.prefix) } else { control.to_owned() }
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        for name in &self.names {
            if let Err(error) = tributary_bpf::unload(&format!("{}{name}", self.prefix)) {
                eprintln!("{error}; `tributary cc list` shows what is loaded");
            }
        }
    }
}
