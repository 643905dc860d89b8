//! leeway-proto
