//! leeway-core
