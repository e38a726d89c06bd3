import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;

/** Dispatches one request to the Java producer, consumer or admin client. */
final class ClientOperations {
    private final Map<String, GroupMember> members = new HashMap<>();
    private final AdminOperations admin = new AdminOperations();

    Object run(String operation, JsonNode request) throws Exception {
        switch (operation) {
            case "produce":
                return ProduceOperation.run(request);
            case "consume":
                return ConsumeOperation.run(request);
            case "member_start":
                members.put(request.get("member").asText(), new GroupMember(request));
                return null;
            case "member_state":
                return members.get(request.get("member").asText()).state();
            case "member_stop":
                members.remove(request.get("member").asText()).stop();
                return null;
            case "admin":
                return admin.run(request);
            default:
                throw new IllegalArgumentException("unknown operation " + operation);
        }
    }
}
