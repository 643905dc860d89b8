//! leeway-engine
