//! The commands, a file for each group. Each turns what was typed into requests and an answer into output.

pub mod agent;
pub mod budget;
pub mod clusters;
pub mod completions;
pub mod data;
pub mod jobs;
pub mod offers;
pub mod policies;
pub mod serve;
pub mod simulate;
pub mod store;
pub mod webhook;

use std::future::Future;
use std::process::ExitCode;

use leeway_model::{Currency, Name};
use leeway_proto::pb;

use crate::args::{Cli, Command};
use crate::client::Client;
use crate::demo;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;
use crate::train;

/// Does what was typed.
pub fn run(cli: Cli, terminal: &Terminal) -> Result<ExitCode, Failure> {
    let context = Online { terminal, server: &cli.global.server };
    let exit = match cli.command {
        Command::Jobs(command) => jobs::run(command, &context),
        Command::Offers(args) => context.with(|client| offers::run(args, client, terminal)),
        Command::Data(command) => context.with(|client| data::run(command, client, terminal)),
        Command::Budget(command) => context.with(|client| budget::run(command, client, terminal)),
        Command::Clusters(command) => context.with(|client| clusters::run(command, client, terminal)),
        Command::Webhook(command) => context.with(|client| webhook::run(command, client, terminal)),
        Command::Policies => policies::run(terminal),
        Command::Store(command) => store::run(&command, terminal),
        Command::Simulate(command) => simulate::run(&command, terminal),
        Command::Completions(args) => completions::run(&args, terminal),
        Command::Serve(args) => serve::run(&args, terminal),
        Command::Demo(args) => demo::run(&args, terminal),
        Command::Agent(args) => return agent::run(args),
        Command::Train(args) => train::run(&args).map(Exit::of_program).map_err(Failure::from),
    };
    exit.map(ExitCode::from)
}

/// What a command needs that speaks to the server.
#[derive(Clone, Copy, Debug)]
pub struct Online<'a> {
    pub terminal: &'a Terminal,
    pub server: &'a str,
}

impl Online<'_> {
    /// Runs `task` with a client of the chosen server.
    pub fn with<F>(&self, task: impl FnOnce(Client) -> F) -> Result<Exit, Failure>
    where
        F: Future<Output = Result<Exit, Failure>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::from(anyhow::Error::from(error)))?;
        runtime.block_on(async { Box::pin(task(Client::new(self.server)?)).await })
    }

    /// The currency of the installation's ledger, in which a job file states its amounts: LEEWAY_CURRENCY, else what the
    /// server says. Nobody answers: the currency of the file itself, so that a mistake in it is told all the same; what
    /// then asks the server says that there is none.
    pub fn currency(&self, file: &str) -> Result<Currency, Failure> {
        if let Ok(text) = std::env::var("LEEWAY_CURRENCY") {
            return text.parse().map_err(|error| Failure::usage(format!("LEEWAY_CURRENCY: {error}")));
        }
        let mut found = None;
        let answered = &mut found;
        let asked = self.with(|client| async move {
            let request = pb::GetInstallationRequest {};
            let answer = client.ask_once(async { client.clusters().get_installation(request).await }).await?;
            *answered = Some(answer.installation.unwrap_or_default().currency);
            Ok(Exit::Success)
        });
        match (asked, found) {
            (Ok(_), Some(text)) => text.parse().map_err(|error| {
                Failure::new(Exit::Error, "INVALID_ANSWER", format!("the server states no currency: {error}"))
            }),
            // A server of before this rpc keeps what it was asked in.
            (Err(failure), _) if failure.is_unreachable() || failure.code == "UNIMPLEMENTED" => Ok(stated(file)),
            (Err(failure), _) => Err(failure),
            (Ok(_), None) => Ok(stated(file)),
        }
    }
}

/// Who asks: LEEWAY_OWNER, else the user's name as far as it can be a name, else `operator`.
pub fn owner() -> Result<Name, Failure> {
    if let Ok(owner) = std::env::var("LEEWAY_OWNER") {
        return owner.parse().map_err(|error| Failure::usage(format!("LEEWAY_OWNER: {error}")));
    }
    let user = std::env::var("USER").unwrap_or_default().to_lowercase();
    let user: String = user.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let user = user.trim_matches('-');
    Ok(user.parse().unwrap_or_else(|_| "operator".parse().expect("'operator' is a name")))
}

/// The currency of the first amount in a text, as `25 EUR`; US dollars when there is none.
fn stated(text: &str) -> Currency {
    let mut words = text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '/' | ',' | '}' | ']'));
    let mut before = words.next().unwrap_or_default();
    for word in words.filter(|word| !word.is_empty()) {
        if before.parse::<f64>().is_ok()
            && word.bytes().all(|byte| byte.is_ascii_uppercase())
            && let Ok(currency) = word.parse()
        {
            return currency;
        }
        before = word;
    }
    Currency::USD
}

/// A random id of 32 hex digits, for what must never be used twice.
pub fn random_id() -> Result<String, Failure> {
    use ring::rand::SecureRandom as _;
    let mut bytes = [0; 16];
    ring::rand::SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Failure::new(Exit::Error, "RANDOM", "the system gives no random numbers"))?;
    Ok(crate::json::hex(&bytes))
}

/// Reads a name as clap wants it.
pub fn name(text: &str) -> Result<Name, String> {
    text.parse().map_err(|error| format!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_states_the_currency_of_its_first_amount() {
        let check = |text: &str, expected: &str| assert_eq!(stated(text).to_string(), expected, "{text}");
        check("max_cost: 25 EUR\nvalue_per_hour: 1 USD/h", "EUR");
        check("resources: { accelerators: V100:1 }\nvalue_per_hour: '1.50 SEK/h'", "SEK");
        check("{max_cost: \"3 GBP\"}", "GBP");
        check("run: head -n 5 README\nestimate: 6h", "USD");
        check("", "USD");
    }
}
