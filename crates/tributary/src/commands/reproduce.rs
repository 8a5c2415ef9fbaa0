//! `tributary reproduce`.

use crate::cli::FbdtArguments;
use anyhow::Result;
use std::process::ExitCode;

pub(crate) fn fbdt(_: &FbdtArguments) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
