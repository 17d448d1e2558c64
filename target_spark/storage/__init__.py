"""Files and folders of a load: spool, staging area, job locks and storage errors."""
