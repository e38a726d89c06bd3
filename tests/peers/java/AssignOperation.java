import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Runs the Java assignors over many cases in one call: who gets what, as "topic-index". */
final class AssignOperation {
    private AssignOperation() {
    }

    static Object run(JsonNode cases) {
        List<Object> answers = new ArrayList<>();
        cases.forEach(one -> answers.add(assign(one)));
        return answers;
    }

    private static Map<String, List<String>> assign(JsonNode one) {
        Map<String, Subscription> members = new LinkedHashMap<>();
        for (JsonNode member : one.get("members")) {
            members.put(member.get("id").asText(), subscription(member));
        }
        Map<String, List<String>> answer = new TreeMap<>();
        assignor(one.get("assignor").asText())
            .assign(cluster(one), new GroupSubscription(members)).groupAssignment()
            .forEach((id, given) -> answer.put(id, given.partitions().stream()
                .map(TopicPartition::toString).collect(Collectors.toList())));
        return answer;
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range":
                return new RangeAssignor();
            case "roundrobin":
                return new RoundRobinAssignor();
            case "sticky":
                return new StickyAssignor();
            case "cooperative-sticky":
                return new CooperativeStickyAssignor();
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private static Subscription subscription(JsonNode member) {
        byte[] userData = Json.bytes(member.get("user_data"));
        JsonNode rack = member.get("rack");
        JsonNode instance = member.get("instance");
        Subscription subscription = new Subscription(
            Json.strings(member.get("topics")),
            userData == null ? null : ByteBuffer.wrap(userData),
            Json.strings(member.get("owned")).stream().map(Json::partition)
                .collect(Collectors.toList()),
            member.get("generation").asInt(),
            rack.isNull() ? Optional.empty() : Optional.of(rack.asText()));
        subscription.setGroupInstanceId(
            instance.isNull() ? Optional.empty() : Optional.of(instance.asText()));
        return subscription;
    }

    /** One broker for each rack; the replicas of a partition are in the racks that are named. */
    private static Cluster cluster(JsonNode one) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        one.get("topics").fields().forEachRemaining(topic -> {
            for (int index = 0; index < topic.getValue().asInt(); index++) {
                JsonNode racks = one.get("racks").path(topic.getKey() + "-" + index);
                Node[] replicas = Json.strings(racks).stream()
                    .map(rack -> nodes.computeIfAbsent(
                        rack, name -> new Node(nodes.size(), "localhost", 9092, name)))
                    .toArray(Node[]::new);
                partitions.add(new PartitionInfo(
                    topic.getKey(), index, replicas.length > 0 ? replicas[0] : null,
                    replicas, replicas));
            }
        });
        return new Cluster("generated", new ArrayList<>(nodes.values()), partitions,
            Collections.emptySet(), Collections.emptySet());
    }
}
