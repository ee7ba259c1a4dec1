package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"govllm/frontend/engineclient"
	"govllm/protocol"
)

// ready is readiness: 200 while requests sent here are served, else 503 and
// why. A load balancer asks it; what restarts the process asks /health.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := s.cfg.Client.Ready(); err != nil {
		s.cfg.ErrorFormat.Write(w, toAPIError(err, ""))
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

// devRoutes are those of vLLM's development mode that an engine may serve.
// Each calls the engines' method of the like name.
//
// Source: vllm/entrypoints/serve/dev and vllm/entrypoints/rl/online/api_router.py.
func (s *Server) devRoutes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /reset_prefix_cache":  s.resetPrefixCache,
		"POST /reset_mm_cache":      s.utility("reset_mm_cache"),
		"POST /reset_encoder_cache": s.utility("reset_encoder_cache"),
		"POST /sleep":               s.sleep,
		"POST /wake_up":             s.wakeUp,
		"GET /is_sleeping":          s.ask("is_sleeping", "is_sleeping"),
		"POST /pause":               s.pause,
		"POST /resume":              s.resume,
		"GET /is_paused":            s.ask("is_scheduler_paused", "is_paused"),
		"GET /server_info":          s.serverInfo,
	}
}

// call calls a method of every engine.
func (s *Server) call(ctx context.Context, method string, args ...any) (any, error) {
	result, err := s.cfg.Client.Utility(ctx, method, args...)
	var refused *engineclient.UtilityError
	if !errors.As(err, &refused) {
		return result, err
	}
	for _, words := range []string{"not supported", "no such method", "has no attribute"} {
		if strings.Contains(refused.Message, words) {
			return nil, &APIError{Status: http.StatusNotImplemented, Type: "NotImplementedError",
				Message: fmt.Sprintf("The engine does not serve %s: %s", method, refused.Message)}
		}
	}
	return nil, &APIError{Status: http.StatusInternalServerError, Type: "InternalServerError",
		Message: fmt.Sprintf("The engine could not carry out %s: %s", method, refused.Message)}
}

// answer is writeJSON or fail.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, value any, err error) {
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	writeJSON(w, http.StatusOK, value)
}

// utility calls a method without arguments whose result nobody needs.
func (s *Server) utility(method string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.call(r.Context(), method); err != nil {
			s.fail(w, r, err, "")
		}
	}
}

// ask answers {member: what the method says}.
func (s *Server) ask(method, member string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := s.call(r.Context(), method)
		s.answer(w, r, map[string]any{member: result}, err)
	}
}

func (s *Server) resetPrefixCache(w http.ResponseWriter, r *http.Request) {
	running, e1 := queryBool(r, "reset_running_requests", false)
	external, e2 := queryBool(r, "reset_external", false)
	if e := firstError(e1, e2); e != nil {
		s.fail(w, r, e, "")
		return
	}
	done, err := s.call(r.Context(), "reset_prefix_cache", running, external)
	s.answer(w, r, map[string]any{"success": done == true}, err)
}

func (s *Server) sleep(w http.ResponseWriter, r *http.Request) {
	level, e1 := sleepLevel(r)
	mode, e2 := pauseMode(r)
	if e := firstError(e1, e2); e != nil {
		s.fail(w, r, e, "")
		return
	}
	_, err := s.call(r.Context(), "sleep", level, mode)
	s.answer(w, r, map[string]any{"status": "sleeping", "level": level}, err)
}

func (s *Server) wakeUp(w http.ResponseWriter, r *http.Request) {
	var tags any // nil: all of them
	if given := r.URL.Query()["tags"]; len(given) > 0 {
		tags = given
	}
	awake, err := s.call(r.Context(), "wake_up", tags)
	status := "awake"
	if awake == false {
		status = "sleeping"
	}
	s.answer(w, r, map[string]any{"status": status, "tags": tags}, err)
}

func (s *Server) pause(w http.ResponseWriter, r *http.Request) {
	mode, e1 := pauseMode(r)
	clearCache, e2 := queryBool(r, "clear_cache", true)
	if e := firstError(e1, e2); e != nil {
		s.fail(w, r, e, "")
		return
	}
	_, err := s.call(r.Context(), "pause_scheduler", mode, clearCache)
	s.answer(w, r, map[string]string{"status": "paused"}, err)
}

func (s *Server) resume(w http.ResponseWriter, r *http.Request) {
	_, err := s.call(r.Context(), "resume_scheduler")
	s.answer(w, r, map[string]string{"status": "resumed"}, err)
}

// queryBool takes the words for truth that FastAPI takes.
func queryBool(r *http.Request, name string, otherwise bool) (bool, *APIError) {
	switch text := r.URL.Query().Get(name); strings.ToLower(text) {
	case "":
		return otherwise, nil
	case "true", "1", "yes", "on", "t", "y":
		return true, nil
	case "false", "0", "no", "off", "f", "n":
		return false, nil
	default:
		return false, invalid(name, "`%s` must be true or false, got %s.", name, abbreviate(text))
	}
}

func sleepLevel(r *http.Request) (int, *APIError) {
	text := r.URL.Query().Get("level")
	if text == "" {
		return 1, nil
	}
	level, err := strconv.Atoi(text)
	if err != nil || level < 0 || level > 2 {
		return 0, invalid("level", "`level` must be 0, 1 or 2, got %s.", abbreviate(text))
	}
	return level, nil
}

// pauseModes say what becomes of requests that run.
var pauseModes = []string{"abort", "wait", "keep"}

func pauseMode(r *http.Request) (string, *APIError) {
	mode := r.URL.Query().Get("mode")
	switch {
	case mode == "":
		return pauseModes[0], nil
	case !slices.Contains(pauseModes, mode):
		return "", invalid("mode", "`mode` must be one of %s, got %s.", strings.Join(pauseModes, ", "), abbreviate(mode))
	}
	return mode, nil
}

// serverInfo tells the configuration as text, or as an object with
// ?config_format=json, and the environment but for keys.
func (s *Server) serverInfo(w http.ResponseWriter, r *http.Request) {
	format := r.URL.Query().Get("config_format")
	if format != "" && format != "text" && format != "json" {
		s.fail(w, r, invalid("config_format", "`config_format` must be text or json, got %s.", abbreviate(format)), "")
		return
	}
	var config any = s.cfg.Settings
	if format != "json" {
		var pairs []string
		for name, value := range s.cfg.Settings {
			pairs = append(pairs, name+"="+value)
		}
		slices.Sort(pairs)
		config = strings.Join(pairs, ", ")
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"vllm_config": config,
		"vllm_env":    vllmEnvironment(),
		"system_env": map[string]any{
			"vllm_version": protocol.VLLMVersion, "go_version": runtime.Version(), "os": runtime.GOOS, "cpu_arch": runtime.GOARCH,
			"cpu_count": runtime.NumCPU(), "gomaxprocs": runtime.GOMAXPROCS(0),
		},
	})
}

func vllmEnvironment() map[string]string {
	env := map[string]string{}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "VLLM_") && !strings.Contains(name, "KEY") {
			env[name] = value
		}
	}
	return env
}
