"""RPMs: ours signed, those of other people resolved and locked, repositories of both."""
