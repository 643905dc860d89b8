//! leeway-tests
