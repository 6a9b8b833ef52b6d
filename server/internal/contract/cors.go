package contract

import (
	"net/http"
	"slices"
)

// CORS answers requests of pages of other origins by the list of those that are allowed; "*" allows all, but not with
// the session of a browser. With an empty
// list, pages of other origins are refused.
func CORS(origins []string, next http.Handler) http.Handler {
	all := slices.Contains(origins, "*")
	protection := http.NewCrossOriginProtection()
	for _, origin := range origins {
		if !all {
			_ = protection.AddTrustedOrigin(origin) // package server has checked them
		}
	}
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusForbidden, errorBody{Error: "requests of pages of this origin are not allowed"})
	}))
	guarded := next
	if !all {
		guarded = protection.Handler(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if allowed := all || slices.Contains(origins, origin); origin != "" && allowed {
			header := w.Header()
			if all {
				origin = "*"
			} else {
				header.Add("Vary", "Origin")
			}
			header.Set("Access-Control-Allow-Origin", origin)
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				header.Set("Access-Control-Allow-Methods", "GET, POST, PUT")
				header.Set("Access-Control-Allow-Headers", "content-type, authorization")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		if all && origin != "" {
			r = r.Clone(r.Context())
			r.Header.Del("Cookie") // the session of a browser is not for the pages of all origins
		}
		guarded.ServeHTTP(w, r)
	})
}
