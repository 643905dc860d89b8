//! BudgetService.

use leeway_core::{Event, Reply, Scheduler};
use leeway_model::budget::{Budget, EntryKind, LedgerEntry};
use leeway_model::{HoldId, Name};
use leeway_proto::pb::budget_service_server::BudgetService;
use leeway_proto::query::LedgerFilter;
use leeway_proto::{check, pb};
use tonic::{Request, Response, Status};

use super::pages::Question;
use super::{Shared, not_found, refused, unexpected};
use crate::driver_loop::View;

#[derive(Clone, Debug)]
pub struct Budgets(pub Shared);

impl Budgets {
    async fn find(&self, name: Name) -> Result<pb::Budget, Status> {
        let wanted = name.clone();
        let found = self.0.handle.read(move |view| view.scheduler.tables().budgets.get(&wanted).cloned()).await?;
        let budget: Budget = found.ok_or_else(|| not_found("budget", name))?;
        Ok(pb::Budget::from_model(&budget, self.0.ledger()))
    }
}

/// Whether a line of the ledger was asked for. The later lines of a hold name only the hold, so its path is looked up.
fn accepts(scheduler: &Scheduler, filter: &LedgerFilter, entry: &LedgerEntry) -> bool {
    let of_job = filter.job.is_none_or(|job| entry.kind.job().is_some_and(|(found, _)| found == job));
    of_job && filter.budget.as_ref().is_none_or(|budget| touches(scheduler, &entry.kind, budget))
}

fn touches(scheduler: &Scheduler, kind: &EntryKind, budget: &Name) -> bool {
    let by_hold = |hold: &HoldId| {
        scheduler.tables().holds.get(hold).is_some_and(|hold| hold.path.iter().any(|name| name == budget))
    };
    match kind {
        EntryKind::HoldOpen { path, .. } | EntryKind::ForcePost { path, .. } => path.contains(budget),
        EntryKind::HoldExtend { hold, .. } | EntryKind::Post { hold, .. } | EntryKind::HoldClose { hold, .. } => {
            by_hold(hold)
        }
        EntryKind::Adjust { budget: name, .. }
        | EntryKind::Credit { budget: name, .. }
        | EntryKind::CapSet { budget: name, .. } => name == budget,
    }
}

#[tonic::async_trait]
impl BudgetService for Budgets {
    async fn set_budget(
        &self,
        request: Request<pb::SetBudgetRequest>,
    ) -> Result<Response<pb::SetBudgetResponse>, Status> {
        let (spec, by) = request.into_inner().into_model(self.0.ledger())?;
        let name = spec.name.clone();
        match self.0.handle.ask(Event::BudgetSet { spec, by }).await? {
            Reply::Done => Ok(Response::new(pb::SetBudgetResponse { budget: Some(self.find(name).await?) })),
            Reply::Refused(refusal) => Err(refused(&refusal)),
            other => Err(unexpected(&other)),
        }
    }

    async fn get_budget(
        &self,
        request: Request<pb::GetBudgetRequest>,
    ) -> Result<Response<pb::GetBudgetResponse>, Status> {
        let name = check::name("name", &request.into_inner().name)?;
        Ok(Response::new(pb::GetBudgetResponse { budget: Some(self.find(name).await?) }))
    }

    async fn list_budgets(
        &self,
        _request: Request<pb::ListBudgetsRequest>,
    ) -> Result<Response<pb::ListBudgetsResponse>, Status> {
        let look = |view: &mut View<'_>| view.scheduler.tables().budgets.values().cloned().collect::<Vec<_>>();
        let budgets = self.0.handle.read(look).await?;
        let ledger = self.0.ledger();
        Ok(Response::new(pb::ListBudgetsResponse {
            budgets: budgets.iter().map(|budget| pb::Budget::from_model(budget, ledger)).collect(),
        }))
    }

    async fn list_ledger(
        &self,
        request: Request<pb::ListLedgerRequest>,
    ) -> Result<Response<pb::ListLedgerResponse>, Status> {
        let request = request.into_inner();
        let scope = pb::ListLedgerRequest { page_size: 0, page_token: String::new(), ..request.clone() };
        let question = Question::new("ledger", &scope);
        let (page, filter) = request.into_model()?;
        let after = question.last_number(&self.0.keys, &page.token)?;
        let mut entries: Vec<LedgerEntry> = Vec::new();
        let mut from = None;
        loop {
            // One more than asked for tells whether there is another page.
            let (filter, wanted) = (filter.clone(), page.size + 1 - entries.len());
            let look = move |view: &mut View<'_>| {
                let View { scheduler, store, ledger, .. } = view;
                ledger.look(*store, after, from, wanted, |entry| accepts(scheduler, &filter, entry))
            };
            let look = self.0.handle.read(look).await?.map_err(|error| {
                tracing::error!(%error, "the ledger cannot be read");
                Status::unavailable("the ledger cannot be read; the server's log says why")
            })?;
            entries.extend(look.lines);
            from = look.next;
            if from.is_none() {
                break;
            }
        }
        let more = entries.len() > page.size;
        entries.truncate(page.size);
        let next_page_token = match entries.last().filter(|_| more) {
            Some(last) => question.token(&self.0.keys, &last.number.to_be_bytes()),
            None => String::new(),
        };
        Ok(Response::new(pb::ListLedgerResponse {
            entries: entries.iter().map(Into::into).collect(),
            next_page_token,
            currency: self.0.ledger().to_string(),
        }))
    }
}
