//! leeway-jobfile
