"""Files and folders of a load: spool, staging area, locks, storage errors."""
