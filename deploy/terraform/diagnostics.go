package main

import (
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// notice is an error that begins in a way of its own. A warning is no failure: the state stays as it is.
type notice struct {
	error
	title   string
	warning bool
}

// failed adds an error, if there is one, and reports whether there is.
func failed(d *diag.Diagnostics, what string, err error) bool {
	var n notice
	switch {
	case errors.As(err, &n) && n.warning:
		d.AddWarning(n.title, n.Error())
	case n.error != nil:
		d.AddError(n.title, n.Error())
	case err != nil:
		d.AddError(what, err.Error())
	}
	return err != nil
}
