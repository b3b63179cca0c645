package shard

// Stand-ins until settle.go and adjust.go are there.

func (e *evaluation) settle(*Request, Decision) Result { return Result{Err: &Error{Code: NotBuilt}} }
func (e *evaluation) adjust(*Request, Decision) Result { return Result{Err: &Error{Code: NotBuilt}} }
