//! What goes out comes back the same, and nothing that comes in can make a conversion panic.

use std::fmt::Debug;

use leeway_model::Currency;
use leeway_model::checkpoint::CheckpointRef;
use leeway_model::dataset::Dataset;
use leeway_model::market::{CapacityObservation, PriceObservation};
use leeway_model::resources::ResourceRequest;
use proptest::prelude::*;
use prost::Message;

use crate::convert::market::Observations;
use crate::convert::webhook::NewEndpoint;
use crate::query::{JobFilter, LogQuery};
use crate::testing::{
    arb_budget_spec, arb_checkpoint_ref, arb_cluster_spec, arb_dataset, arb_decision, arb_job_spec, arb_offer_key,
    arb_price,
};
use crate::{Invalid, agent, pb};

const USD: Currency = Currency::USD;

/// Over the real wire: encoded and decoded.
fn sent<W: Message + Default>(wire: W) -> W {
    W::decode(wire.encode_to_vec().as_slice()).unwrap()
}

proptest! {
    #[test]
    fn a_job_spec_comes_back_the_same(spec in arb_job_spec()) {
        prop_assert_eq!(sent(pb::JobSpec::from_model(&spec, USD)).into_model(USD).unwrap(), spec);
    }

    #[test]
    fn a_cluster_spec_comes_back_the_same(spec in arb_cluster_spec()) {
        prop_assert_eq!(sent(pb::ClusterSpec::from_model(&spec, USD)).into_model(USD).unwrap(), spec);
    }

    #[test]
    fn a_budget_spec_comes_back_the_same(spec in arb_budget_spec()) {
        prop_assert_eq!(sent(pb::BudgetSpec::from_model(&spec, USD)).into_model(USD).unwrap(), spec);
    }

    #[test]
    fn a_dataset_comes_back_the_same(dataset in arb_dataset()) {
        prop_assert_eq!(Dataset::try_from(sent(pb::Dataset::from(&dataset))).unwrap(), dataset);
    }

    #[test]
    fn a_checkpoint_reference_comes_back_the_same(reference in arb_checkpoint_ref()) {
        prop_assert_eq!(CheckpointRef::try_from(sent(pb::CheckpointRef::from(&reference))).unwrap(), reference);
    }

    #[test]
    fn a_decision_comes_back_the_same(decision in arb_decision()) {
        prop_assert_eq!(sent(pb::Decision::from_model(&decision, USD)).into_model(USD).unwrap(), decision);
    }

    #[test]
    fn an_observation_comes_back_the_same(offer in arb_offer_key(), price in arb_price(), available: Option<u32>) {
        let price = PriceObservation { offer: offer.clone(), price };
        prop_assert_eq!(PriceObservation::try_from(sent(pb::PriceObservation::from(&price))).unwrap(), price);
        let capacity = CapacityObservation { offer, available };
        prop_assert_eq!(CapacityObservation::try_from(sent(pb::CapacityObservation::from(&capacity))).unwrap(), capacity);
    }

    #[test]
    fn equal_specs_have_equal_bytes(spec in arb_job_spec()) {
        let bytes = || pb::JobSpec::from_model(&spec, USD).encode_to_vec();
        prop_assert_eq!(bytes(), bytes());
    }

    #[test]
    fn no_amount_passes_for_one_in_another_currency(spec in arb_job_spec(), budget in arb_budget_spec()) {
        let euro = "EUR".parse::<Currency>().unwrap();
        prop_assert_eq!(pb::JobSpec::from_model(&spec, euro).into_model(USD).unwrap_err().field, "currency");
        prop_assert_eq!(pb::BudgetSpec::from_model(&budget, euro).into_model(USD).unwrap_err().field, "currency");
    }
}

/// Decodes and converts; whatever the bytes are, there is a value or an error that names a field.
fn convert<W: Message + Default, M>(bytes: &[u8], into: impl FnOnce(W) -> Result<M, Invalid>) {
    if let Ok(Err(invalid)) = W::decode(bytes).map(into) {
        assert!(!invalid.field.is_empty() && !invalid.message.is_empty(), "{invalid:?}");
        assert!(!invalid.to_string().chars().any(|c| c.is_control()), "{invalid:?}");
    }
}

/// Every request and every spec that the server reads.
fn convert_everything(bytes: &[u8]) {
    convert(bytes, |wire: pb::JobSpec| wire.into_model(USD));
    convert(bytes, |wire: pb::SubmitJobRequest| wire.into_model(USD));
    convert(bytes, |wire: pb::SubmitJobsRequest| wire.into_model(USD).map(|batch| batch.sound()));
    convert(bytes, |wire: pb::ListJobsRequest| wire.into_model());
    convert(bytes, |wire: pb::WatchJobsRequest| wire.into_model());
    convert(bytes, |wire: pb::ListOffersRequest| wire.into_model());
    convert(bytes, |wire: pb::ListLedgerRequest| wire.into_model());
    convert(bytes, |wire: pb::ObserveMarketRequest| wire.into_model().map(|_: Observations| ()));
    convert(bytes, |wire: pb::ClusterSpec| wire.into_model(USD));
    convert(bytes, |wire: pb::SetBudgetRequest| wire.into_model(USD));
    convert(bytes, |wire: pb::Decision| wire.into_model(USD));
    convert(bytes, |wire: pb::RegisterRequest| wire.into_model());
    fn try_into<W: Message + Default, M: TryFrom<W, Error = Invalid> + Debug>(bytes: &[u8]) {
        convert(bytes, M::try_from);
    }
    try_into::<pb::ResourceRequest, ResourceRequest>(bytes);
    try_into::<pb::CheckpointRef, CheckpointRef>(bytes);
    try_into::<pb::Dataset, Dataset>(bytes);
    try_into::<pb::JobFilter, JobFilter>(bytes);
    try_into::<pb::StreamLogsRequest, LogQuery>(bytes);
    try_into::<pb::AddEndpointRequest, NewEndpoint>(bytes);
    try_into::<pb::RenewLeaseRequest, agent::Renewal>(bytes);
    try_into::<pb::CommitCheckpointRequest, agent::Commit>(bytes);
    try_into::<pb::ReportPhaseRequest, agent::PhaseReport>(bytes);
    try_into::<pb::ReportDamagedRequest, agent::Damage>(bytes);
    try_into::<pb::ReportNoticeRequest, agent::NoticeReport>(bytes);
    try_into::<pb::ReportExitRequest, agent::ExitReport>(bytes);
}

proptest! {
    #[test]
    fn d_01_arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        convert_everything(&bytes);
    }

    #[test]
    fn d_01_damaged_messages_never_panic(
        spec in arb_job_spec(),
        decision in arb_decision(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let request = pb::SubmitJobRequest {
            client_request_id: "r-1".into(),
            spec: Some(pb::JobSpec::from_model(&spec, USD)),
            ..Default::default()
        };
        let decision = pb::Decision::from_model(&decision, USD);
        for mut bytes in [request.encode_to_vec(), decision.encode_to_vec()] {
            for (place, value) in &damage {
                let place = place.index(bytes.len());
                bytes[place] = *value;
            }
            convert_everything(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            convert_everything(&bytes);
        }
    }
}

#[test]
fn d_03_deep_nesting_is_refused() {
    // Groups within groups in an unknown field: the only way to nest without end in this contract.
    let nested = |depth| {
        let (start, end) = (0x7b, 0x7c);
        pb::GetJobRequest::decode([vec![start; depth], vec![end; depth]].concat().as_slice())
    };
    assert!(nested(10).is_ok());
    assert!(nested(100_000).is_err());
}

#[test]
fn x_04_text_that_is_not_utf_8_is_refused() {
    assert!(pb::GetJobRequest::decode(&b"\x0a\x02\xc3\x28"[..]).is_err());
}

#[test]
fn d_01_unknown_fields_are_ignored() {
    let mut bytes = pb::GetJobRequest { job_id: "j-1".into() }.encode_to_vec();
    bytes.extend_from_slice(b"\xaa\x06\x03new");
    assert_eq!(pb::GetJobRequest::decode(bytes.as_slice()).unwrap().job_id, "j-1");
}

#[test]
fn the_descriptors_hold_every_service() {
    let files = prost_types::FileDescriptorSet::decode(pb::FILE_DESCRIPTOR_SET).unwrap();
    let mut services: Vec<_> = files.file.iter().flat_map(|file| &file.service).map(|s| s.name().to_owned()).collect();
    services.sort();
    let expected = [
        "AgentService",
        "BudgetService",
        "ClusterService",
        "DatasetService",
        "JobService",
        "MarketService",
        "OfferService",
        "SimulationService",
        "UploadService",
        "WebhookService",
    ];
    assert_eq!(services, expected);
}
