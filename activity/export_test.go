package activity

import "github.com/flowfabric/flowfabric-go/internal/activityspec"

// PlanOf returns a retry policy with every default filled in.
func PlanOf(p RetryPolicy) activityspec.RetryPlan { return p.plan() }
