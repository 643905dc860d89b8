//! Decisions: candidates with their whole bills, and rejections.

use leeway_model::decision::{Candidate, Decision, Rejection, RejectionCount};
use leeway_model::market::{OfferKey, Price};
use leeway_model::{Bill, Currency, Micros, Term};

use super::one_of;
use crate::check;
use crate::invalid::Within;
use crate::limits::{DECISION_LIST_MAX, DETAIL_MAX};
use crate::{Invalid, pb};

impl From<&Bill> for pb::Bill {
    fn from(value: &Bill) -> Self {
        let line = |(term, amount): (Term, Micros)| pb::BillLine {
            term: pb::Term::from(term).into(),
            amount_micros: amount.get(),
        };
        Self { lines: value.terms().map(line).collect(), total_micros: value.total().get() }
    }
}

impl TryFrom<pb::Bill> for Bill {
    type Error = Invalid;

    /// A term that is left out is zero: a server of an older version does not know it.
    fn try_from(wire: pb::Bill) -> Result<Self, Invalid> {
        let mut bill = Self::default();
        let mut seen = Vec::new();
        for (index, line) in wire.lines.iter().enumerate() {
            let term = one_of::<pb::Term>("term", line.term).at("lines", index)?;
            if seen.contains(&term) {
                return Err(Invalid::new("term", format!("'{term}' is there twice")).within(&format!("lines[{index}]")));
            }
            seen.push(term);
            bill.set(term, Micros::new(line.amount_micros));
        }
        if bill.total().get() == wire.total_micros {
            return Ok(bill);
        }
        let message = format!("{} is not the sum of the lines, {}", wire.total_micros, bill.total().get());
        Err(Invalid::new("total_micros", message))
    }
}

impl pb::Candidate {
    pub fn from_model(value: &Candidate, ledger: Currency) -> Self {
        Self {
            offer: Some((&value.offer).into()),
            price: Some((&value.price).into()),
            bill: Some((&value.bill).into()),
            expected_time_ms: value.expected_time.as_millis(),
            assumed: value.assumed.iter().map(|&assumption| pb::Assumption::from(assumption).into()).collect(),
            currency: ledger.to_string(),
        }
    }

    pub fn into_model(self, ledger: Currency) -> Result<Candidate, Invalid> {
        check::ledger_currency("currency", &self.currency, ledger)?;
        Ok(Candidate {
            offer: OfferKey::try_from(check::required("offer", self.offer)?).within("offer")?,
            price: Price::try_from(check::required("price", self.price)?).within("price")?,
            bill: Bill::try_from(check::required("bill", self.bill)?).within("bill")?,
            expected_time: leeway_model::Millis::new(self.expected_time_ms),
            assumed: check::list("assumed", self.assumed, 0..=64, |number| one_of::<pb::Assumption>("", number))?,
        })
    }
}

impl From<&Rejection> for pb::Rejection {
    fn from(value: &Rejection) -> Self {
        Self {
            offer: Some((&value.offer).into()),
            rule: pb::Rule::from(value.rule).into(),
            detail: value.detail.to_string(),
        }
    }
}

impl TryFrom<pb::Rejection> for Rejection {
    type Error = Invalid;

    fn try_from(wire: pb::Rejection) -> Result<Self, Invalid> {
        Ok(Self {
            offer: OfferKey::try_from(check::required("offer", wire.offer)?).within("offer")?,
            rule: one_of::<pb::Rule>("rule", wire.rule)?,
            detail: check::lines("detail", wire.detail, DETAIL_MAX)?,
        })
    }
}

impl From<&RejectionCount> for pb::RejectionCount {
    fn from(value: &RejectionCount) -> Self {
        Self { rule: pb::Rule::from(value.rule).into(), count: value.count, example: Some((&value.example).into()) }
    }
}

impl TryFrom<pb::RejectionCount> for RejectionCount {
    type Error = Invalid;

    fn try_from(wire: pb::RejectionCount) -> Result<Self, Invalid> {
        Ok(Self {
            rule: one_of::<pb::Rule>("rule", wire.rule)?,
            count: wire.count,
            example: Rejection::try_from(check::required("example", wire.example)?).within("example")?,
        })
    }
}

impl pb::Decision {
    pub fn from_model(value: &Decision, ledger: Currency) -> Self {
        Self {
            run_id: value.run.to_string(),
            at_ms: value.at.as_millis(),
            policy: value.policy.to_string(),
            chosen: Some(pb::Candidate::from_model(&value.chosen, ledger)),
            others: value.others.iter().map(|other| pb::Candidate::from_model(other, ledger)).collect(),
            rejected: value.rejected.iter().map(Into::into).collect(),
            why: value.why.to_string(),
            held_micros: value.held.get(),
            currency: ledger.to_string(),
        }
    }

    pub fn into_model(self, ledger: Currency) -> Result<Decision, Invalid> {
        check::ledger_currency("currency", &self.currency, ledger)?;
        Ok(Decision {
            run: check::run_id("run_id", &self.run_id)?,
            at: check::instant("at_ms", self.at_ms)?,
            policy: check::name("policy", &self.policy)?,
            chosen: check::required("chosen", self.chosen)?.into_model(ledger).within("chosen")?,
            others: check::list("others", self.others, 0..=DECISION_LIST_MAX, |other| other.into_model(ledger))?,
            rejected: check::list("rejected", self.rejected, 0..=DECISION_LIST_MAX, RejectionCount::try_from)?,
            why: check::lines("why", self.why, DETAIL_MAX)?,
            held: Micros::new(self.held_micros),
        })
    }
}
