//! A store for runs that nobody will open again: it numbers entries and forgets them, so that memory stays flat however
//! long a run is. Crashes and restarts are the business of the fault simulation, which uses the stores that remember.

use leeway_store::{Entry, Error, Head, Index, Store};

#[derive(Debug, Default)]
pub struct Fleeting {
    head: Head,
    staged: Index,
}

impl Store for Fleeting {
    fn head(&self) -> Head {
        self.head
    }

    fn append(&mut self, _entry: Entry) -> Result<(), Error> {
        self.staged += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<Head, Error> {
        self.head.index += std::mem::take(&mut self.staged);
        Ok(self.head)
    }

    fn rows(&self, _visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        Ok(())
    }

    fn entries(&self, from: Index, _visit: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
        if from > self.head.index {
            Ok(())
        } else {
            Err(Error::HistoryTrimmed { asked: from, first: self.first_entry() })
        }
    }

    fn first_entry(&self) -> Index {
        self.head.index + 1
    }

    fn keeps_entries(&self) -> bool {
        false
    }
}
