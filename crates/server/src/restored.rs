//! What a start does beside a store that was restored from an export (S-14).
//!
//! The world has gone on since the export: there may be machines, output and uploads of jobs that this store does not
//! know. So the server only reports what it would remove, until an operator has looked and says so by naming the store's
//! incarnation as `confirm_restore`. A file of the data directory remembers which incarnation was served or confirmed.

use std::path::Path;

use anyhow::Context;

const FILE: &str = "incarnation";

/// Whether this server must only report. `fresh` says that the store has no history at all.
pub(crate) fn watch(data: &Path, incarnation: &str, fresh: bool, confirmed: Option<&str>) -> anyhow::Result<bool> {
    let path = data.join(FILE);
    let known = match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    if known.as_deref() == Some(incarnation) {
        return Ok(false);
    }
    if fresh || confirmed == Some(incarnation) {
        let written = crate::files::replace(&path, format!("{incarnation}\n").as_bytes());
        written.with_context(|| format!("cannot write {}", path.display()))?;
        if !fresh {
            tracing::info!(%incarnation, "the restored store is confirmed; what belongs to no job is removed again");
        }
        return Ok(false);
    }
    if let Some(other) = confirmed {
        tracing::warn!(confirmed = %other, %incarnation, "confirm_restore names another store than this one");
    }
    tracing::warn!(
        code = "RESTORED",
        %incarnation,
        "this store was restored: machines, output and uploads that it does not know are reported and not removed; look at them, then start once with confirm_restore = \"{incarnation}\""
    );
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_14_a_restored_store_is_served_in_report_only_until_its_own_incarnation_is_confirmed() {
        let data = tempfile::tempdir().unwrap();
        let start = |incarnation, fresh, confirmed| watch(data.path(), incarnation, fresh, confirmed).unwrap();
        assert!(!start("first", true, None), "a new store");
        assert!(!start("first", false, None), "the same store");
        assert!(start("second", false, None), "an import");
        assert!(start("second", false, None), "it stays so");
        assert!(start("second", false, Some("first")), "another was confirmed");
        assert!(!start("second", false, Some("second")));
        assert!(!start("second", false, None), "once is enough");
        assert!(start("first", false, None), "going back is a restore, too");
    }
}
