from placet import Suggestion, improvement_suggestions

offered = [
    Suggestion(
        field="budget",
        issue="No budget was given, so all price ranges were searched.",
        agent_action="Ask the user for the most they want to spend.",
        impact="Half of the results would drop out.",
        priority="medium",
    )
]

body = {"results": ["…"], **improvement_suggestions(offered, cycle=0)}


# What follows is for the tests.
assert body["improvement_suggestions"][0]["field"] == "budget"
assert improvement_suggestions(offered, cycle=2) == {"improvement_suggestions": []}
