package placement

import "fmt"

// String describes the change for the log.
func (c Change) String() string {
	switch c.Kind {
	case AddLearner:
		return c.Name + " receives the log"
	case Promote:
		return c.Name + " has caught up and gets its vote"
	case Remove, Stray:
		return c.Name + " is taken out of the group"
	case TransferAway:
		return "leadership goes to " + c.Name
	case RecordVoter:
		return c.Name + " is a voter"
	case RecordGone:
		return c.Name + " is gone"
	}
	return fmt.Sprintf("%s is not known", c.Name)
}
