"""What everything stands on: steps and receipts, processes, errors, what the user sees."""
