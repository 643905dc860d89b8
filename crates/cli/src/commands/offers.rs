//! `leeway offers`: what machines cost now, cheapest first.

use leeway_proto::pb;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::json;
use crate::render;
use crate::terminal::Terminal;

const AFTER: &str = "Examples:
  leeway offers
  leeway offers --gpus A100:8 --spot
  leeway --json offers --region aws/us-east-1 --limit 0";

/// Offers of one page.
const PAGE: u32 = 1_000;

/// What machines cost now
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Only machines with at least these accelerators, for example A100:8 or V100.
    #[arg(long, value_name = "MODEL[:COUNT]", value_parser = gpus)]
    pub gpus: Option<pb::Accelerators>,
    /// Only this region, as provider/region.
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// Only this cluster.
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Only spot capacity.
    #[arg(long)]
    pub spot: bool,
    /// Only on-demand capacity; with --spot both.
    #[arg(long)]
    pub on_demand: bool,
    /// Show so many of the cheapest; 0 shows all.
    #[arg(long, default_value_t = 50, value_name = "COUNT")]
    pub limit: usize,
}

/// Reads `A100:8` or `A100`, under any name of the model that is known.
pub fn gpus(text: &str) -> Result<pb::Accelerators, String> {
    let (model, count) = text.split_once(':').unwrap_or((text, "1"));
    let fault = || format!("'{}' is no model and count; write for example A100:8", text.escape_debug());
    let count: u32 = count.trim().parse().map_err(|_| fault())?;
    let model = model.trim();
    if model.is_empty() || count == 0 {
        return Err(fault());
    }
    Ok(pb::Accelerators { model: leeway_market::accelerator::canonical(model).into_owned(), count })
}

pub async fn run(args: Args, client: Client, terminal: &Terminal) -> Result<Exit, Failure> {
    let kinds = [(args.spot, pb::CapacityType::Spot), (args.on_demand, pb::CapacityType::OnDemand)];
    let capacities: Vec<i32> = kinds.iter().filter(|(wanted, _)| *wanted).map(|(_, kind)| (*kind).into()).collect();
    let mut offers = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListOffersRequest {
            page_size: PAGE,
            page_token,
            accelerators: args.gpus.clone(),
            region: args.region.clone(),
            capacities: capacities.clone(),
            cluster: args.cluster.clone(),
        };
        let page = client.ask(|| async { client.offers().list_offers(request.clone()).await }).await?;
        offers.extend(page.offers);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    // Prices in different currencies cannot be compared here; the server compares them when it places.
    offers.sort_by_key(|offer| {
        let price = offer.price.as_ref().map_or(u64::MAX, |price| price.rate_nanos_per_hour);
        (price, offer.key.clone().map(|key| (key.cluster, key.shape, key.capacity)))
    });
    let all = offers.len();
    if args.limit > 0 {
        offers.truncate(args.limit);
    }
    terminal.show(|view| render::offers::table(&offers, view), || json::list("Offer", &offers))?;
    if offers.len() < all {
        terminal.remark(&format!("and {} more; --limit 0 shows all", all - offers.len()));
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accelerators_are_read_under_their_known_names() {
        let read = |text| gpus(text).map(|gpus| (gpus.model, gpus.count));
        assert_eq!(read("V100"), Ok(("V100".into(), 1)));
        assert_eq!(read("V100:8"), Ok(("V100".into(), 8)));
        for bad in ["", ":8", "V100:", "V100:0", "V100:-1", "V100:x", "V100:1:2"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
