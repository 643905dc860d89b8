//! leeway-market
