//! The one binary `leeway`: server, agent, and everything a person does with them.
//!
//! `args` says what can be typed, `commands` has a file for each group of it, `client` speaks to the server, `render`
//! turns answers into tables and `json` into JSON, `failure` says what went wrong and with which exit code.

mod args;
mod client;
mod commands;
mod demo;
mod failure;
mod json;
mod pack;
mod render;
mod simulator;
mod terminal;
mod train;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Cli;
use crate::terminal::Terminal;

/// A submission is made in one thread, kept by another and let go by a third, where the system's allocator waits for
/// its locks: with this one a server takes a quarter more of them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return args::refused(&error),
    };
    let terminal = Terminal::new(cli.global.json);
    // Whoever opens a TLS connection later finds this provider; that another one is there already cannot be.
    let _ = rustls::crypto::ring::default_provider().install_default();
    commands::run(cli, &terminal).unwrap_or_else(|failure| failure.show(&terminal).into())
}
