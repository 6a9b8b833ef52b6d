package contractcheck

// Constructs that a flow is checked for, by the names that errors have.
const (
	Joins         = "joins (flow.AnyOf, flow.Quorum)"
	EdgeKinds     = "edges of other kinds (flow.OnFailure, flow.Always)"
	Distinct      = "signals of different sources (activity.AtLeastDistinct)"
	Decisive      = "decisive signals (activity.Decisive)"
	Maps          = "maps"
	SubFlows      = "sub-flows"
	Loops         = "loops (flow.Loop)"
	Plans         = "plans (flow.Expand)"
	StartTimeouts = "schedule-to-start timeouts"
	Limits        = "limits (activity.Limit)"
	Texts         = "texts and schemas of waits (activity.Title, Question, Audience, AnswerSchema)"
	Retention     = "retention of flows (flow.Retention)"
	Fairness      = "fairness (flow.FairBy)"
	Conditions    = "conditions (flow.When, flow.Switch)"
	Finally       = "nodes that run however a run ends (flow.Finally)"
	AnyFailure    = "compensation of several nodes (flow.OnAnyFailure)"
	OrElse        = "constants in place of skipped results (flow.OrElse)"
	Timers        = "timers (flow.Sleep, flow.Until, activity.Sleep)"
	Budgets       = "budgets of flows (flow.Budget)"
)

// constructOf returns the construct that a member of a definition belongs to; the member itself if it has no name of
// its own.
func constructOf(member string) string {
	if name := named(member); name != "" {
		return name
	}
	return member
}

// named returns the construct of a member of a definition, "" if the member has none.
func named(member string) string {
	switch member {
	case "budgets":
		return Budgets
	case "limits":
		return Limits
	case "keep_ms":
		return Retention
	case "fair_by":
		return Fairness
	case "condition", "when":
		return Conditions
	case "finally":
		return Finally
	}
	return ""
}
