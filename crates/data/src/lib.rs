//! leeway-data
