//! `leeway budget`: budgets, what they paid for, and the ledger.

use leeway_model::{Micros, money};
use leeway_proto::pb;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::json;
use crate::render;
use crate::terminal::Terminal;

const BUDGETS: &str = "Examples:
  leeway budget set team --cap '100 USD'
  leeway budget show team
  leeway budget list
  leeway budget ledger team";
const SET: &str = "A cap below what is spent and held freezes the budget; raising it thaws it.

Examples:
  leeway budget set company --cap '1000 USD'
  leeway budget set team --cap '100 USD' --parent company --soft-limit '80 USD'";
const SHOW: &str = "Examples:
  leeway budget show team";
const LIST: &str = "Examples:
  leeway budget list";
const LEDGER: &str = "Lines are never changed; the newest come last.

Examples:
  leeway budget ledger
  leeway budget ledger team --job j-42
  leeway --json budget ledger --limit 0";

/// Entries of one page.
const PAGE: u32 = 1_000;

/// Budgets, what they paid for, and the ledger
#[derive(Debug, clap::Subcommand)]
#[command(after_help = BUDGETS)]
pub enum Command {
    /// Create a budget or change it
    #[command(after_help = SET)]
    Set {
        /// The budget.
        name: String,
        /// Hard limit, for example '100 USD'.
        #[arg(long, value_name = "AMOUNT", value_parser = amount, allow_hyphen_values = true)]
        cap: Amount,
        /// The budget that it is part of.
        #[arg(long, value_name = "NAME")]
        parent: Option<String>,
        /// Passing it only alerts.
        #[arg(long, value_name = "AMOUNT", value_parser = amount, allow_hyphen_values = true)]
        soft_limit: Option<Amount>,
    },
    /// Show one budget
    #[command(after_help = SHOW)]
    Show {
        /// The budget.
        name: String,
    },
    /// Show all budgets
    #[command(after_help = LIST, visible_alias = "ls")]
    List,
    /// Show the lines of the ledger
    #[command(after_help = LEDGER)]
    Ledger {
        /// Only lines that touch this budget.
        name: Option<String>,
        /// Only lines of this job's runs.
        #[arg(long, value_name = "JOB")]
        job: Option<String>,
        /// Show so many of the newest lines; 0 shows all.
        #[arg(long, default_value_t = 100, value_name = "COUNT")]
        limit: usize,
    },
}

/// An amount with its currency.
#[derive(Clone, Debug)]
pub struct Amount {
    micros: Micros,
    currency: String,
}

fn amount(text: &str) -> Result<Amount, String> {
    let (micros, currency) = money::parse_amount(text).map_err(|error| error.to_string())?;
    if micros.is_negative() {
        return Err("it is below zero, and amounts must be positive; write one such as '1 USD'".to_owned());
    }
    Ok(Amount { micros, currency: currency.to_string() })
}

pub async fn run(command: Command, client: Client, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        Command::Set { name, cap, parent, soft_limit } => {
            let mut spec = spec(name, cap, parent, soft_limit)?;
            keep_unsaid(&mut spec, &client).await?;
            let request = pb::SetBudgetRequest { spec: Some(spec), actor: super::owner()?.to_string() };
            let ask = || async { client.budgets().set_budget(request.clone()).await };
            show(&client.ask(ask).await?.budget.unwrap_or_default(), terminal)
        }
        Command::Show { name } => {
            let ask = || async { client.budgets().get_budget(pb::GetBudgetRequest { name: name.clone() }).await };
            show(&client.ask(ask).await?.budget.unwrap_or_default(), terminal)
        }
        Command::List => {
            let ask = || async { client.budgets().list_budgets(pb::ListBudgetsRequest {}).await };
            let budgets = client.ask(ask).await?.budgets;
            terminal.show(|view| render::budgets::table(&budgets, view), || json::list("Budget", &budgets))?;
            Ok(Exit::Success)
        }
        Command::Ledger { name, job, limit } => ledger(name, job, limit, &client, terminal).await,
    }
}

fn spec(
    name: String,
    cap: Amount,
    parent: Option<String>,
    soft_limit: Option<Amount>,
) -> Result<pb::BudgetSpec, Failure> {
    if let Some(soft) = &soft_limit
        && soft.currency != cap.currency
    {
        let (one, two) = (&cap.currency, &soft.currency);
        return Err(Failure::usage(format!("--cap is in {one} and --soft-limit in {two}; use one currency")));
    }
    Ok(pb::BudgetSpec {
        name,
        parent,
        cap_micros: cap.micros.get(),
        period: pb::Period::Total.into(),
        soft_limit_micros: soft_limit.map(|soft| soft.micros.get()),
        currency: cap.currency,
    })
}

/// What is not given stays as it is; `none` takes it away.
async fn keep_unsaid(spec: &mut pb::BudgetSpec, client: &Client) -> Result<(), Failure> {
    let known = client.ask(|| async { client.budgets().list_budgets(pb::ListBudgetsRequest {}).await }).await?;
    let known = known.budgets.into_iter().filter_map(|budget| budget.spec).find(|known| known.name == spec.name);
    match spec.parent.as_deref() {
        Some("none") => spec.parent = None,
        Some(_) => {}
        None => spec.parent = known.as_ref().and_then(|known| known.parent.clone()),
    }
    if spec.soft_limit_micros.is_none() {
        spec.soft_limit_micros = known.and_then(|known| known.soft_limit_micros);
    }
    Ok(())
}

fn show(budget: &pb::Budget, terminal: &Terminal) -> Result<Exit, Failure> {
    terminal.show(|view| render::budgets::one(budget, view), || json::of("Budget", budget))?;
    Ok(Exit::Success)
}

async fn ledger(
    budget: Option<String>,
    job_id: Option<String>,
    limit: usize,
    client: &Client,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let mut entries = Vec::new();
    let mut omitted = 0;
    let mut request = pb::ListLedgerRequest { page_size: PAGE, budget, job_id, ..pb::ListLedgerRequest::default() };
    let currency = loop {
        let page = client.ask(|| async { client.budgets().list_ledger(request.clone()).await }).await?;
        entries.extend(page.entries);
        // Pages come oldest first, and the newest are wanted: what is too old is let go on the way.
        if limit > 0 && entries.len() > limit {
            let surplus = entries.len() - limit;
            entries.drain(..surplus);
            omitted += surplus;
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break page.currency;
        }
    };
    terminal.show(
        |view| render::ledger::table(&entries, &currency, view),
        || serde_json::json!({ "currency": currency, "entries": json::list("LedgerEntry", &entries), "omitted": omitted }),
    )?;
    if omitted > 0 {
        terminal.remark(&format!("{omitted} older lines are not shown; --limit 0 shows all"));
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_amounts_need_a_currency_and_are_not_negative() {
        assert_eq!(amount("100 USD").unwrap().micros, Micros::from_units(100));
        assert_eq!(amount("$0.50").unwrap().micros, Micros::new(500_000));
        for bad in ["100", "-1 USD", "1e3 USD", "NaN USD", "", "99999999999999999999 USD", "0.0000001 USD"] {
            assert!(amount(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_budget_has_one_currency() {
        let (cap, soft) = (amount("100 USD").unwrap(), amount("80 EUR").unwrap());
        assert_eq!(spec("team".into(), cap, None, Some(soft)).unwrap_err().exit, Exit::Usage);
    }
}
