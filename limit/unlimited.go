package limit

// unlimited counts as lifetime does, and denies nothing. Its Quota is 0, so its Remaining is 0 too and means nothing.
type unlimited struct{ lifetime }

func (unlimited) wait(Limit, State, uint64, Time) Span { return 0 }
